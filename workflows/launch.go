package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

const (
	// graceTimeout is what an activity has beyond the node's own timeout to
	// read and store large values, and to notice and report the timeout.
	graceTimeout = 10 * time.Second
	// heartbeatTimeout is how long a worker may be silent before it counts as
	// lost. A node whose own timeout is no longer needs no heartbeats: its
	// activity ends as soon. Each one that has them costs the server a timer.
	heartbeatTimeout = 10 * time.Second
	// startTimeout is how long an activity may wait for a worker before the run
	// withdraws it, since a run cannot continue as new with activities in
	// flight.
	startTimeout = time.Minute
	// drainTime bounds how long Temporal may retry an activity, for the same
	// reason.
	drainTime = time.Minute
)

// launch requests what w waits for.
func (r *run) launch(w *wait) {
	w.launches++
	if !w.unstarted {
		w.asked = time.Time{}
	}
	w.since, w.due, w.unstarted = r.now(), time.Time{}, false
	w.request, w.key = r.requestOf(w), r.key
	w.local = !w.patient && r.answers() < maxAnswers
	if r.began[w.node] == 0 {
		r.began[w.node] = stamp(r.started, w.since)
	}
	n := &r.plan.Nodes[w.node]
	switch {
	case w.kind == waitRoute:
		r.ask(w, contract.ActivityRoute, r.routeRequest(w))
	case n.Kind == plan.KindOutput || n.Local && w.local:
		r.ask(w, contract.ActivityLocal, r.request(w))
	case w.kind == waitUndo:
		r.askUndo(w)
	case w.kind == waitCheck:
		r.askCheck(w)
	case w.undecided(n):
		r.undo.Attempt(w.node)
		r.decide(w)
	case r.needsChild(w):
		r.startChild(w)
	default:
		w.local = false
		r.call(w)
	}
	r.flights = append(r.flights, w)
}

// decide asks the guardian for a permit of the call that w waits for, or for a hold.
func (r *run) decide(w *wait) {
	activity := contract.ActivityDecide
	switch {
	case r.plan.Nodes[w.node].Paid():
		activity = contract.ActivityHold
	case w.approved:
		activity = contract.ActivityConfirm
	}
	w.kind, w.local, w.queue = waitGuardian, false, contract.QueueGuardian
	call := r.request(w)
	r.meter.emit(size(&call))
	policy := r.policy(w)
	w.future = workflow.ExecuteActivity(workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue:              w.queue,
		ActivityID:             "engine/guardian/" + r.path + r.plan.Nodes[w.node].ID,
		Summary:                r.plan.Nodes[w.node].ID,
		ScheduleToCloseTimeout: lasting(policy.MaximumAttempts, startTimeout, journalTimeout),
		ScheduleToStartTimeout: startTimeout,
		StartToCloseTimeout:    journalTimeout,
		RetryPolicy:            policy,
	}), activity, call)
}

// requestOf names the request that w waits for, uniquely within the workflow.
func (r *run) requestOf(w *wait) string {
	return r.tag + "/" + r.name(w.node) + "#" + strconv.Itoa(w.launches)
}

// answers counts the answers that may arrive while a workflow task runs, at two
// events each. A child brings its start, its report and its end, besides answers to
// queries about it.
func (r *run) answers() int {
	n := 2 + r.dropped // the deadline, and what sleeps
	for _, w := range r.flights {
		if !w.local {
			n++
		}
		if w.asking || w.started != nil && !w.started.IsReady() {
			n++
		}
	}
	return n
}

// ask launches an activity of the engine itself: a local one, if it may be.
func (r *run) ask(w *wait, activity string, request any) {
	timeout := graceTimeout
	if n := &r.plan.Nodes[w.node]; w.kind == waitCall && n.Kind != plan.KindOutput {
		timeout = time.Duration(n.TimeoutMS)*time.Millisecond + graceTimeout
	}
	if w.local {
		r.meter.reserve()
		w.future = workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(r.steady, workflow.LocalActivityOptions{
			StartToCloseTimeout: timeout,
			Summary:             r.plan.Nodes[w.node].ID,
			RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		}), activity, request)
		return
	}
	w.queue = contract.QueueJournal
	r.meter.emit(byReference)
	w.future = workflow.ExecuteActivity(workflow.WithActivityOptions(r.steady, workflow.ActivityOptions{
		TaskQueue:              w.queue,
		ActivityID:             r.commandID(w),
		Summary:                r.plan.Nodes[w.node].ID,
		ScheduleToCloseTimeout: lasting(r.policy(w).MaximumAttempts, startTimeout, timeout+w.grace()),
		ScheduleToStartTimeout: startTimeout,
		StartToCloseTimeout:    timeout + w.grace(),
		RetryPolicy:            r.policy(w),
	}), activity, request)
}

// call launches the activity that runs a node.
func (r *run) call(w *wait) {
	call := r.request(w)
	r.meter.emit(size(&call))
	options := r.options(w)
	ctx := r.steady
	switch {
	case options.HeartbeatTimeout == 0 || r.undoes(w): // what undoes an effect goes on
	case !w.decided:
		ctx = r.heeded
	case w.permit != nil: // the outcome of an effect is awaited
		ctx, options.WaitForCancellation = r.permitted, true
	}
	w.future = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), r.plan.Nodes[w.node].Activity(), call)
}

// commandID names an activity among those of the run. A route and the call before
// it are never in flight together, but have names of their own in the history.
func (r *run) commandID(w *wait) string {
	if w.kind == waitRoute {
		return "engine/route/" + r.path + r.plan.Nodes[w.node].ID
	}
	return r.name(w.node)
}

// request assembles what the activity of a node needs: the delivered edges that
// fill its ports, and the plan's input where an expression reads it.
func (r *run) request(w *wait) contract.Call {
	call := contract.Call{
		Run: r.identity(), Plan: r.head.Digest, Node: w.node, Visit: r.visit, Spent: w.spent, Paid: w.paid,
		Request: w.request, Patient: w.checks(), Probe: w.probe, Deliveries: r.deliver(w.node),
		Lean: r.held > maxHeld, Permit: w.permit, Stated: w.stated, Listed: w.listed,
	}
	if n := &r.plan.Nodes[w.node]; n.ReadsInput || n.RoutesOnInput {
		call.Input = r.head.Whole
	}
	return call
}

func (r *run) routeRequest(w *wait) contract.RouteRequest {
	request := contract.RouteRequest{
		Run: r.identity(), Plan: r.head.Digest, Node: w.node, Error: *handled(r.errors[w.node]), Request: w.request, Patient: w.checks(),
	}
	if r.plan.Nodes[w.node].RoutesOnInput {
		request.Input = r.head.Whole
	}
	return request
}

// maxHeld is how many bytes of small values a run holds before it has them stored
// like large ones: all that it carries into the next execution is encoded within
// one workflow task.
const maxHeld = 16 << 20

// size estimates the bytes of a request.
func size(call *contract.Call) int {
	const delivery = len(`{"edge":1000000,"value":,"output":,"error":{"kind":"store_unavailable","node":"","message":,"details":,"attempts":1000000}},`)
	n := len(call.Input) + len(call.Listed) + quoted(call.Run.Workflow)
	for _, d := range call.Deliveries {
		n += len(d.Value) + len(d.Output) + delivery
		if d.Error != nil {
			n += len(d.Error.Node) + quoted(d.Error.Message) + len(d.Error.Details)
		}
	}
	return n
}

// options are the activity options of a node, from its contract.
func (r *run) options(w *wait) workflow.ActivityOptions {
	n := &r.plan.Nodes[w.node]
	switch w.queue = r.toolsQueue; {
	case n.Guarded(), n.Relied:
		w.queue = contract.QueueEffects
	case n.InProcess:
		w.queue = contract.QueueEngine
	}
	timeout := r.takes(w)
	heartbeat := heartbeatTimeout
	if timeout <= heartbeatTimeout {
		heartbeat = 0
	}
	if w.probe {
		timeout, heartbeat = 0, 0
	}
	policy := r.policy(w)
	return workflow.ActivityOptions{
		TaskQueue:              w.queue,
		ActivityID:             r.commandID(w),
		Summary:                n.ID,
		ScheduleToCloseTimeout: lasting(policy.MaximumAttempts, startTimeout, timeout+w.grace()),
		ScheduleToStartTimeout: startTimeout,
		StartToCloseTimeout:    timeout + w.grace(),
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            policy,
	}
}

// takes bounds how long the answer to the request of w takes, apart from the store. It may be
// found out first what an earlier call did.
func (r *run) takes(w *wait) time.Duration {
	n := &r.plan.Nodes[w.node]
	took := time.Duration(n.TimeoutMS) * time.Millisecond
	if w.kind == waitUndo || w.decided && w.permit == nil {
		took += r.verifying(n)
	}
	return took
}

// verifying bounds how long it takes, with all attempts, to verify whether the effect of node n
// has happened; it is 0 where nothing verifies that.
func (r *run) verifying(n *plan.Node) time.Duration {
	if n.Commit == nil || n.Commit.Verify == nil {
		return 0
	}
	by := &r.plan.Nodes[n.Commit.Verify.Node]
	attempt := min(by.TimeoutMS+max(by.Retry.InitialMS, by.Retry.MaxMS, 1), maxWait.Milliseconds())
	return min(time.Duration(min(by.Retry.MaxAttempts, 1000))*time.Duration(attempt)*time.Millisecond, maxWait)
}

// tryTime is how long Temporal retries without a bound on attempts before the run
// makes a new request.
const tryTime = time.Hour

// lasting bounds an activity with all its attempts, each of which may wait and run
// so long; 0 attempts means no bound on them. Temporal itself has no bound: whoever
// fails an attempt decides when the next one is, which may be in a year.
func lasting(attempts int32, start, attempt time.Duration) time.Duration {
	if attempts == 0 {
		return start + attempt + tryTime
	}
	return time.Duration(attempts) * (start + attempt + contract.ShortWait)
}

// policy is the part of a node's contract that is left to Temporal: as many
// attempts with short waits as do not keep the activity in flight for long. The run
// requests the rest. Only failures by the contract count: a lost worker (Temporal's
// own timeouts) and an unavailable store are returned at once, except for a patient
// request, which waits for the store.
func (r *run) policy(w *wait) *temporal.RetryPolicy {
	if w.permit != nil || w.hold != "" && !w.probe {
		return &temporal.RetryPolicy{MaximumAttempts: 1} // a permit, or a hold, is for one call
	}
	if w.checks() {
		return &temporal.RetryPolicy{
			InitialInterval: minBackoff, BackoffCoefficient: 2, MaximumInterval: maxBackoff,
			NonRetryableErrorTypes: timeouts,
		}
	}
	n := &r.plan.Nodes[w.node]
	if w.kind == waitRoute || n.Kind == plan.KindOutput {
		return &temporal.RetryPolicy{MaximumAttempts: 1}
	}
	if guarded(n) {
		return &temporal.RetryPolicy{MaximumAttempts: 1}
	}
	first := time.Duration(n.Retry.WaitMS(w.spent+1)) * time.Millisecond
	attempts := int32(r.attemptsAtOnce(n, w.spent))
	if attempts == 1 {
		return &temporal.RetryPolicy{MaximumAttempts: 1}
	}
	return &temporal.RetryPolicy{
		InitialInterval:        min(first, contract.ShortWait),
		BackoffCoefficient:     max(float64(n.Retry.MultiplierMilli)/1000, 1),
		MaximumInterval:        min(max(time.Duration(n.Retry.MaxMS)*time.Millisecond, first), contract.ShortWait),
		MaximumAttempts:        attempts,
		NonRetryableErrorTypes: append([]string{string(contract.StoreUnavailable)}, timeouts...),
	}
}

// timeouts are the types of Temporal's own failures of an activity.
var timeouts = []string{"TemporalTimeout:StartToClose", "TemporalTimeout:ScheduleToStart", "TemporalTimeout:Heartbeat"}

// attemptsAtOnce is how many of the contract's attempts are left to Temporal.
func (r *run) attemptsAtOnce(n *plan.Node, spent int) int {
	left := max(n.Retry.MaxAttempts-spent, 1)
	took := time.Duration(0)
	for k := 1; k <= left; k++ {
		if took += time.Duration(n.TimeoutMS) * time.Millisecond; took > drainTime {
			return max(k-1, 1)
		}
		wait := time.Duration(n.Retry.WaitMS(spent+k)) * time.Millisecond
		if wait > contract.ShortWait {
			return k
		}
		took += wait
	}
	return left
}

// needsChild reports whether a child workflow makes the call that w waits for.
func (r *run) needsChild(w *wait) bool {
	n := &r.plan.Nodes[w.node]
	return w.kind != waitRoute && w.kind != waitCheck && w.kind != waitUndo && n.Kind != plan.KindOutput && !w.probe && !w.undecided(n) && r.outlives(w)
}

// startChild starts the child workflow that makes the call w waits for.
func (r *run) startChild(w *wait) {
	w.kind, w.local = waitChild, false
	call := r.request(w)
	options := r.options(w)
	policy := options.RetryPolicy
	r.meter.emit(size(&call))
	w.child, w.key = &contract.Child{Workflow: r.childID(w)}, r.key
	w.due = r.asked(w)
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(r.steady, workflow.ChildWorkflowOptions{
		WorkflowID: w.child.Workflow, TaskQueue: contract.QueueEngine, StaticSummary: options.Summary,
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
	}), contract.WorkflowCall, contract.ChildCall{
		Call: call, Activity: r.plan.Nodes[w.node].Activity(), Queue: options.TaskQueue, ActivityID: options.ActivityID, Summary: options.Summary,
		StartMS: options.ScheduleToStartTimeout.Milliseconds(), TimeoutMS: options.StartToCloseTimeout.Milliseconds(), HeartbeatMS: options.HeartbeatTimeout.Milliseconds(),
		Attempts: policy.MaximumAttempts, InitialMS: policy.InitialInterval.Milliseconds(), MultiplierMilli: int64(policy.BackoffCoefficient * 1000),
		MaxMS: policy.MaximumInterval.Milliseconds(), NonRetryable: policy.NonRetryableErrorTypes,
	})
	w.future, w.started = child, child.GetChildWorkflowExecution()
}

// asked is when Temporal is next asked about the child of w: when it should have
// reported, or earlier if that is far off.
func (r *run) asked(w *wait) time.Time {
	now, n := r.now(), &r.plan.Nodes[w.node]
	latest := w.since.Add(startTimeout + drainTime + time.Duration(n.TimeoutMS)*time.Millisecond + graceTimeout)
	if first := now.Add(maxBackoff); latest.Before(first) {
		return first
	}
	if soon := now.Add(askEvery); soon.Before(latest) {
		return soon
	}
	return latest
}

// childID names a child workflow. The name of its run is a part of it, unless that
// is too long.
func (r *run) childID(w *wait) string {
	id := r.info.WorkflowExecution.ID + "/" + w.request
	if len(id) <= maxWorkflowID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return r.tag + "/" + hex.EncodeToString(sum[:])
}

// outlives reports whether the call that w waits for may take longer than the run can wait
// before continuing as new, if it may have to continue at all: a run that ends
// before its history is that long needs no child workflows, which cost more.
func (r *run) outlives(w *wait) bool {
	if r.takes(w) <= contract.ShortWait {
		return false
	}
	length, bytes := r.info.GetCurrentHistoryLength(), r.info.GetCurrentHistorySize()
	return length+r.ahead > r.hard() || bytes+r.ahead*(bytes/max(length, 1)) > hardBytes
}
