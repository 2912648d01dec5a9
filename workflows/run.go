package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// run is one execution of one plan, between two continue-as-new.
type run struct {
	ctx  workflow.Context
	info *workflow.Info
	head plan.Head
	*progress

	// root and origin are as in contract.Identity.
	root, origin string
	started      time.Time

	// values holds, for each settled node, its OutPorts' values while a target
	// may still read them; remaining counts those edges.
	values    [][]contract.Value
	remaining []int32
	// errors holds the failure of each failed node, by node.
	errors []*contract.ErrorPayload

	flights []*flight
	meter   meter
	journal journal
	// deadline fires at the run's deadline.
	deadline workflow.Future
	draining bool
	// rows are the beginnings of the rows of the table in the user interface.
	rows []string
}

// flight is something that the run waits for: an activity, or a wait before one.
type flight struct {
	future workflow.Future
	local  bool
	land   func(workflow.Future)
}

func newRun(ctx workflow.Context, loaded *plan.Loaded) *run {
	r := &run{
		ctx:       ctx,
		info:      workflow.GetInfo(ctx),
		head:      loaded.Head,
		progress:  newProgress(loaded.Plan),
		values:    make([][]contract.Value, len(loaded.Plan.Nodes)),
		remaining: make([]int32, len(loaded.Plan.Nodes)),
		errors:    make([]*contract.ErrorPayload, len(loaded.Plan.Nodes)),
	}
	for i := range r.plan.Nodes {
		r.remaining[i] = int32(len(r.plan.Out(i)))
	}
	return r
}

// begin starts the first execution of a run.
func (r *run) begin() {
	id := identify(r.info)
	r.root, r.origin = id.Root, id.Origin
	r.started = r.info.WorkflowStartTime
	r.values[0] = r.head.Input.Values
	r.progress.begin(r.head.Input)
	r.release()
	r.announce(contract.RunRunning, true)
}

// loop runs the plan to its end.
func (r *run) loop(v *view) (contract.Result, error) {
	v.state = contract.RunRunning
	r.deadline = workflow.NewTimerWithOptions(r.ctx, r.untilDeadline(), workflow.TimerOptions{Summary: "deadline"})
	r.meter.begin(r)
	for {
		switch {
		case r.ctx.Err() != nil:
			return nil, v.end(r.ctx, r.ctx.Err())
		case r.deadline.IsReady():
			return nil, r.close(v, contract.Failure{Kind: contract.Deadline, Message: "the run's deadline has passed"})
		case len(r.orphans) > 0:
			cause := r.errors[r.orphans[0]]
			return nil, r.close(v, contract.Failure{Kind: cause.Kind, Node: cause.Node, Message: cause.Message})
		case r.done() && r.idle():
			return r.finish(v)
		case r.due() && r.idle():
			return nil, r.continueAsNew()
		}
		r.dispatch()
		if len(r.flights) == 0 {
			return nil, r.close(v, contract.Failure{Kind: contract.Contract, Message: "no node can run, and some have not been decided: the plan is not sound"})
		}
		r.wait()
		r.release()
	}
}

func (r *run) untilDeadline() time.Duration {
	end := r.started.Add(time.Duration(r.plan.Limits.DeadlineMS) * time.Millisecond)
	return max(end.Sub(workflow.Now(r.ctx)), time.Millisecond)
}

// dispatch launches nodes while there is room for them.
func (r *run) dispatch() {
	r.meter.tick(r)
	if len(r.journal.entries) >= journalEntries && !r.journal.writing {
		r.write()
	}
	for len(r.queue) > 0 && r.inFlight() < r.plan.Limits.MaxParallel && !r.draining && !r.meter.cutting && len(r.journal.entries) < maxEntries {
		if r.meter.full(r) {
			r.cut()
			return
		}
		i, _ := r.next()
		r.launch(i, trouble{})
	}
}

// wait blocks until something in flight has ended, and lands all that has.
func (r *run) wait() {
	if !slices.ContainsFunc(r.flights, func(f *flight) bool { return f.local }) {
		// The workflow task ends here.
		workflow.SetCurrentDetails(r.ctx, r.details())
	}
	if !slices.ContainsFunc(r.flights, func(f *flight) bool { return f.future.IsReady() }) {
		selector := workflow.NewSelector(r.ctx)
		for _, f := range r.flights {
			selector.AddFuture(f.future, func(workflow.Future) {})
		}
		selector.AddFuture(r.deadline, func(workflow.Future) {})
		selector.AddReceive(r.ctx.Done(), func(workflow.ReceiveChannel, bool) {})
		selector.Select(r.ctx)
	}
	if r.ctx.Err() != nil {
		return
	}
	var ready []*flight
	r.flights = slices.DeleteFunc(r.flights, func(f *flight) bool {
		if f.future.IsReady() {
			ready = append(ready, f)
			return true
		}
		return false
	})
	for _, f := range ready {
		f.land(f.future)
	}
}

// inFlight counts what nodes wait for; a batch on its way to the ledger is none
// of it.
func (r *run) inFlight() int {
	if r.journal.writing {
		return len(r.flights) - 1
	}
	return len(r.flights)
}

// idle reports whether no node waits for anything. What is on its way to the
// ledger then is written once more at the end, or carried.
func (r *run) idle() bool { return r.inFlight() == 0 }

// release forgets the values that no edge will read any more, and notes the
// nodes that were skipped.
func (r *run) release() {
	for _, i := range r.log {
		if r.nodes[i] == nodeSkipped {
			r.journal.note(contract.JournalEntry{Node: i, Visit: 1, State: contract.Skipped})
		}
		for _, e := range r.plan.In(i) {
			r.consume(r.plan.Edges[e].From)
		}
	}
	r.log = r.log[:0]
}

func (r *run) consume(from int) {
	if r.remaining[from]--; r.remaining[from] == 0 {
		r.values[from] = nil
	}
}

// finish assembles the output and ends the run.
func (r *run) finish(v *view) (contract.Result, error) {
	last := len(r.plan.Nodes) - 1
	if !r.output() {
		return nil, r.close(v, contract.Failure{
			Kind: contract.Contract, Node: plan.OutputNode,
			Message: "the output cannot be assembled: a required edge or port of $output has no value",
		})
	}
	var out contract.Outcome
	var err error
	for t := (trouble{}); ; t.waits++ {
		err = workflow.ExecuteLocalActivity(r.localOptions(last), contract.ActivityLocal, r.request(last, 0)).Get(r.ctx, &out)
		if r.ctx.Err() != nil {
			return nil, v.end(r.ctx, r.ctx.Err())
		}
		if err == nil || readFailure(err, true).Kind != contract.StoreUnavailable || r.deadline.IsReady() {
			break
		}
		// A cancelled wait shows in the next round.
		_ = workflow.Sleep(r.ctx, t.backoff())
	}
	if err != nil || len(out.Values) != 1 {
		failure := readFailure(err, true)
		return nil, r.close(v, contract.Failure{Kind: failure.Kind, Node: plan.OutputNode, Message: failure.Message})
	}
	if refused := r.conclude(contract.RunEnd{State: contract.RunSucceeded, Output: out.Output}); refused != nil {
		return nil, r.unrecorded(v, refused)
	}
	v.state = contract.RunSucceeded
	r.announce(contract.RunSucceeded, false)
	return contract.Result(out.Values[0]), nil
}

// close ends a run that has failed.
func (r *run) close(v *view, f contract.Failure) error {
	f = complete(f)
	if refused := r.conclude(contract.RunEnd{State: contract.RunFailed, Failure: &f}); refused != nil {
		return r.unrecorded(v, refused)
	}
	err := v.fail(f)
	r.announce(contract.RunFailed, false)
	return err
}

// unrecorded ends a run that the ledger holds to be another: it fails, whatever
// its nodes have said.
func (r *run) unrecorded(v *view, refused *failure) error {
	err := v.fail(contract.Failure{Kind: refused.Kind, Message: "the ledger refuses what the run states: " + refused.Message})
	r.announce(contract.RunFailed, false)
	return err
}

// announce writes the search attributes that the server knows: once at the
// start, once at the end.
func (r *run) announce(state contract.RunState, first bool) {
	var updates []temporal.SearchAttributeUpdate
	add := func(name, value string) {
		if slices.Contains(r.head.Attributes, name) {
			updates = append(updates, temporal.NewSearchAttributeKeyKeyword(name).ValueSet(value))
		}
	}
	if first {
		add(contract.AttributePlan, r.plan.Name+"@"+r.plan.Version)
		add(contract.AttributeAgent, r.plan.Agent)
	}
	add(contract.AttributeState, string(state))
	if len(updates) == 0 {
		return
	}
	if err := workflow.UpsertTypedSearchAttributes(r.ctx, updates...); err != nil {
		workflow.GetLogger(r.ctx).Warn("search attributes were not written", "error", err)
	}
}
