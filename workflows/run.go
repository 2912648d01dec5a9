package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// phase is a phase of a run. A run moves from one to the next, and never back.
type phase byte

const (
	forward   phase = iota // nodes start
	unwinding              // the end is known: nothing starts, what is in flight is let go
	closing                // the end goes to the ledger, and no event changes it any more
)

// run is one execution of one plan, between two continue-as-new.
type run struct {
	// ctx is cancelled with the run. steady never is: the phases decide whether
	// a cancellation reaches what is in flight. heeded is for calls that react
	// to their cancellation, and permitted for those of effects, which react to it
	// only as long as nothing of them was sent.
	ctx, steady, heeded, permitted workflow.Context
	cancelHeeded, cancelPermitted  workflow.CancelFunc

	info *workflow.Info
	head plan.Head
	view *view
	*scope

	// root and origin are as in contract.Identity, and tag is a part of origin that
	// requests are named by.
	root, origin, tag string
	started           time.Time
	executions        int
	toolsQueue        string
	// key is the id of the payload key of this execution ([contract.SealedWith]), or "".
	key string

	phase phase
	// released reports that what was in flight at the end was let go, and unwound that
	// nothing is left to undo.
	released, unwound bool
	// recalled reports that the calls of effects were told of the end.
	recalled bool
	undo     *plan.Undoing
	// end is how the run is to end, and output what it is to return.
	end    contract.RunEnd
	output contract.Value

	// flights are in flight. sleeping continue when they are due, again as soon
	// as there is room, and stalled when the store is available.
	flights, sleeping, again, stalled []*wait
	// dropped counts the answers that may still come to calls that nobody waits for.
	dropped int
	alarm   alarm
	// parked wait for people at barriers, which are being opened, or open.
	parked   []*wait
	barriers []*barrier
	opening  int
	inbox    inbox
	steering *steering
	outage   outage
	reports  workflow.ReceiveChannel

	meter    meter
	journal  journal
	payments payments
	deadline workflow.Future
	draining bool
	// ahead estimates the events of what has not settled yet.
	ahead int
	// rounds counts the turns of a reset run with children until it has
	// resumed.
	rounds  int
	resumed bool
	// rows are the beginnings of the rows of the table in the user interface.
	rows []string
}

func newRun(ctx workflow.Context, loaded *plan.Loaded, v *view) *run {
	r := &run{
		ctx: ctx, info: workflow.GetInfo(ctx), head: loaded.Head, view: v, scope: newScope(loaded.Plan),
		toolsQueue: loaded.Head.ToolsQueue,
		reports:    workflow.GetSignalChannel(ctx, contract.SignalReport),
		inbox:      inbox{signals: workflow.GetSignalChannel(ctx, contract.SignalSignature)},
		steering:   &v.steering,
		key:        loaded.SealedWith,
		meter:      meter{window: maxWindow},
	}
	r.undo = plan.NewUndoing(r.progress)
	// The next execution has a key of its own, so ctx has none.
	r.steady, _ = workflow.NewDisconnectedContext(sealedWith(ctx, r.key))
	r.heeded, r.cancelHeeded = workflow.WithCancel(r.steady)
	r.permitted, r.cancelPermitted = workflow.WithCancel(r.steady)
	if r.toolsQueue == "" {
		r.toolsQueue = contract.QueueTools
	}
	for i := range r.plan.Nodes {
		r.ahead += weight(&r.plan.Nodes[i])
	}
	return r
}

// begin starts the first execution of a run.
func (r *run) begin() {
	id := identify(r.info)
	r.identifyAs(id)
	r.started, r.executions = r.info.WorkflowStartTime, 1
	r.hold(0, r.head.Input.Values)
	r.progress.Begin(r.head.Input)
	r.announce(contract.RunRunning, true)
}

// identifyAs sets the names of the run.
func (r *run) identifyAs(id contract.Identity) {
	r.root, r.origin = id.Root, id.Origin
	// A reset changes the root, and may change no command of the history before it.
	r.tag = id.Origin[max(0, len(id.Origin)-12):]
}

// advance moves the run to its next phase when it is time. Only advance decides
// that.
func (r *run) advance() phase {
	if r.phase == forward && r.over() {
		r.phase = unwinding
	}
	if r.phase == unwinding && r.released && !r.unwound {
		r.unwound = r.journal.ended && r.idle() || r.undone()
	}
	if r.phase == unwinding && r.unwound {
		r.phase = closing
	}
	return r.phase
}

// over reports whether the run has an end, and which one.
func (r *run) over() bool {
	switch {
	case r.end.State != "": // stated where it was seen
	case r.ctx.Err() != nil:
		r.ends(contract.RunCancelled, contract.Failure{Kind: contract.Cancelled, Message: "the run was cancelled"})
	case r.deadline.IsReady():
		r.fails(contract.Failure{Kind: contract.Deadline, Message: "the run's deadline has passed"})
	case len(r.progress.Orphans()) > 0:
		cause := r.errors[r.progress.Orphans()[0]]
		r.fails(contract.Failure{Kind: cause.Kind, Node: cause.Node, Message: cause.Message})
	case r.progress.Done() && r.progress.Node(r.last()) == plan.NodePending && !r.progress.Assembles():
		r.fails(contract.Failure{
			Kind: contract.Contract, Node: plan.OutputNode,
			Message: "the output cannot be assembled: a required edge or port of $output has no value",
		})
	case !r.progress.Done() && r.stuck():
		r.fails(contract.Failure{Kind: contract.Contract, Message: "no node can run, and some have not been decided: the plan is not sound"})
	default:
		return false
	}
	return true
}

// stuck reports whether nothing is left that could settle a node.
func (r *run) stuck() bool {
	return len(r.flights)+len(r.sleeping)+len(r.again)+len(r.stalled)+len(r.parked)+r.progress.Ready() == 0 && !r.undo.Recovering()
}

// fails ends the run with a failure. A run that is unwinding has its first cause.
func (r *run) fails(f contract.Failure) {
	if r.phase != forward {
		workflow.GetLogger(r.ctx).Warn("a run that is ending has failed again", "node", f.Node, "kind", f.Kind)
		return
	}
	r.ends(contract.RunFailed, f)
}

func (r *run) ends(state contract.RunState, f contract.Failure) {
	f = complete(f)
	r.end = contract.RunEnd{State: state, Failure: &f}
}

// last is the index of $output.
func (r *run) last() int { return len(r.plan.Nodes) - 1 }

func (r *run) untilDeadline() time.Duration {
	end := r.started.Add(time.Duration(r.plan.Limits.DeadlineMS) * time.Millisecond)
	return max(end.Sub(r.now()), time.Millisecond)
}

// announce writes the search attributes that change: all at the start, and the state at
// the end.
func (r *run) announce(state contract.RunState, first bool) {
	all := []attribute{{contract.AttributeState, string(state)}}
	if first {
		all = append(all, attribute{contract.AttributePlan, r.plan.Name + "@" + r.plan.Version}, attribute{contract.AttributeAgent, r.plan.Agent})
	}
	announce(r.ctx, r.head.Attributes, all)
}

// attribute is a search attribute of a run.
type attribute struct{ name, value string }

// announce writes search attributes, those that the server knows.
func announce(ctx workflow.Context, known []string, all []attribute) {
	var updates []temporal.SearchAttributeUpdate
	for _, a := range all {
		if slices.Contains(known, a.name) {
			updates = append(updates, temporal.NewSearchAttributeKeyKeyword(a.name).ValueSet(a.value))
		}
	}
	if len(updates) == 0 {
		return
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes were not written", "error", err)
	}
}

func (r *run) identity() contract.Identity {
	return contract.Identity{Workflow: r.info.WorkflowExecution.ID, Root: r.root, Origin: r.origin}
}

// entry completes the ledger's entry about node i.
func (r *run) entry(i int, e contract.JournalEntry) contract.JournalEntry {
	e.Node, e.Visit, e.Element = i, r.visit, r.element
	return e
}

// identify names the run that this execution belongs to. A reset makes a new run,
// which continues the one before: what it repeats may have other results.
func identify(info *workflow.Info) contract.Identity {
	id := contract.Identity{Workflow: info.WorkflowExecution.ID, Root: info.FirstRunID, Origin: info.FirstRunID}
	if id.Root == "" || wasReset(info) {
		id.Root = info.WorkflowExecution.RunID
	}
	if id.Origin == "" {
		id.Origin = id.Root
	}
	return id
}

// weight estimates how many events node n costs at most, apart from failures of the
// infrastructure.
func weight(n *plan.Node) int {
	if n.Local {
		return 2
	}
	if n.Paid() {
		return 3 * 7 * max(n.Retry.MaxAttempts, 1) // with its hold, and the end of that
	}
	return 7 * max(n.Retry.MaxAttempts, 1)
}

// wasReset reports whether this execution has taken over the history of another.
func wasReset(info *workflow.Info) bool {
	return info.OriginalRunID != "" && info.OriginalRunID != info.WorkflowExecution.RunID
}
