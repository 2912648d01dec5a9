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

	origin  string
	started time.Time

	// values holds, for each settled node, its OutPorts' values while a target
	// may still read them; remaining counts those edges.
	values    [][]contract.Value
	remaining []int32
	// errors holds the failure of each failed node, by node.
	errors []*contract.ErrorPayload

	flights []*flight
	meter   meter
	batch   int
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
	r.origin = r.info.FirstRunID
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
		case r.done() && len(r.flights) == 0:
			return r.finish(v)
		case r.due() && len(r.flights) == 0:
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
	for len(r.queue) > 0 && len(r.flights) < r.plan.Limits.MaxParallel && !r.draining && !r.meter.cutting {
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

// release forgets the values that no edge will read any more.
func (r *run) release() {
	for _, i := range r.log {
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
	if err == nil && len(out.Values) == 1 {
		v.state = contract.RunSucceeded
		r.announce(contract.RunSucceeded, false)
		return contract.Result(out.Values[0]), nil
	}
	failure := readFailure(err, true)
	return nil, r.close(v, contract.Failure{Kind: failure.Kind, Node: plan.OutputNode, Message: failure.Message})
}

// close ends a run that has failed.
func (r *run) close(v *view, f contract.Failure) error {
	err := v.fail(f)
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
