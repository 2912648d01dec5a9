// Package workflows is the interpreter: one Temporal workflow that runs any
// compiled plan.
//
// It decides order and nothing else. Expressions, schemas and calls are evaluated
// in activities, so no upgrade of a library can break a replay; they return
// outcomes and values, which the interpreter passes on without reading them. The
// package reads no clock but Temporal's, starts no goroutine, ranges over no map,
// and imports nothing with a side effect.
//
// Which edges are delivered and which nodes run is decided by [plan.Progress].
//
//	plan.go      the workflow
//	loop.go      the loop that runs a plan
//	close.go     the end
//	unwind.go    releasing what is in flight when the end is known
//	undo.go      undoing effects, after that or while the run goes on
//	carry.go     continuing as new
//	await.go     waiting for something to happen
//	land.go      the answers of activities
//	child.go     calls as child workflows
//	forward.go   what to launch next, and settling nodes
//	launch.go    requests of activities and children
//	guardian.go  whether the guardian is to be asked
//	hold.go      holds, and what calls have cost
//	barrier.go   barriers, at which effects wait for people
//	inbox.go     signatures on their way to the guardian
//	steer.go     what people tell the run: to pause, and to go on
//	recheck.go   prechecks that are called once more after an approval
//	journal.go   recording outcomes in the ledger
//	failure.go   failures as the run interprets them
//	renew.go     when to continue as new
//	meter.go     the bounds of one workflow task
//	run.go       a run and its phases
//	wait.go      what a run waits for
//	scope.go     the values of a plan's nodes
//	state.go     what queries and the user interface show
//
// Calls between these files run downwards in this list.
package workflows

import (
	"encoding/json"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// Plan runs one plan; it is registered as [contract.WorkflowType].
//
// start is a [contract.Start] in JSON. loaded and carried are there only where
// a run continues as new; a start that brings them is refused, because a
// compiled plan is never taken from outside.
//
// The result is the plan's output. A failure is an application error whose type
// is the kind and whose first detail is a [contract.Failure]; a cancelled run
// closes as cancelled, with the same detail.
func Plan(ctx workflow.Context, start json.RawMessage, loaded *plan.Loaded, carried *contract.Carried) (contract.Result, error) {
	info := workflow.GetInfo(ctx)
	v := &view{state: contract.RunLoading}
	v.restoreSteering(carried)
	if err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryState, v.answer, workflow.QueryHandlerOptions{
		Description: "The state of the run and of its nodes",
	}); err != nil {
		return nil, err
	}
	if err := workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateSign, v.sign, workflow.UpdateHandlerOptions{
		Validator: v.signable, Description: "A signature for a barrier of the run",
	}); err != nil {
		return nil, err
	}
	for _, u := range []struct {
		name, description string
		order             contract.Order
	}{
		{contract.UpdatePause, "Starts nothing new until the run is resumed", contract.OrderPause},
		{contract.UpdateResume, "Lets a paused run go on", contract.OrderResume},
	} {
		if err := workflow.SetUpdateHandlerWithOptions(ctx, u.name, v.steer(u.order), workflow.UpdateHandlerOptions{
			Validator: v.steerable(u.order), Description: u.description,
		}); err != nil {
			return nil, err
		}
	}
	if reason := refuse(info, loaded, carried); reason != "" {
		f := complete(contract.Failure{Kind: contract.Contract, Message: reason})
		if info.CronSchedule != "" {
			// Temporal restarts by the schedule whatever ends in another way.
			v.state, v.failure = contract.RunCancelled, &f
			return nil, temporal.NewCanceledError(f)
		}
		return nil, v.fail(f)
	}
	if loaded == nil {
		var err error
		if loaded, err = v.load(ctx, start); err != nil {
			announceUnloaded(ctx, err)
			return v.unloaded(ctx, err)
		}
	}
	if loaded.Err != nil {
		panic(loaded.Err) // fails the workflow task, which is tried again when the store is back
	}
	r := newRun(ctx, loaded, v)
	v.run = r
	if carried == nil {
		r.begin()
	} else if err := r.restore(carried); err != nil {
		return nil, v.fail(contract.Failure{Kind: contract.Contract, Message: err.Error()})
	}
	return r.loop()
}

// minTaskTimeout is the least workflow task timeout that a run may be started with.
// With a shorter one, the SDK may request another task rather than accept the
// answer of a local activity, again and again.
const minTaskTimeout = time.Second

// refuse returns the reason why a run of this form is refused, or "".
func refuse(info *workflow.Info, loaded *plan.Loaded, carried *contract.Carried) string {
	switch {
	case info.CronSchedule != "":
		return "a plan is not run by a cron schedule; use a Temporal Schedule, which starts a run of its own each time"
	case info.RetryPolicy != nil:
		return "a plan is not run under a workflow retry policy; each node's contract says what is retried"
	case loaded == nil && info.WorkflowTaskTimeout < minTaskTimeout:
		return "a plan is not run with a workflow task timeout of " + info.WorkflowTaskTimeout.String() + "; leave it out, or give at least " + minTaskTimeout.String()
	case (loaded != nil || carried != nil) && info.ContinuedExecutionRunID == "":
		return "a start takes one argument: a compiled plan or a run's state is never taken from outside"
	case (loaded == nil) != (carried == nil):
		return "a run continues with a plan and a state, or with neither"
	}
	return ""
}

const (
	loadTimeout  = 2 * time.Minute
	loadAttempts = 50
	// Bounds of the wait between two attempts.
	minLoadWait = 500 * time.Millisecond
	maxLoadWait = 30 * time.Second
)

// load compiles the plan, admits the input and states the beginning of the run, in
// a local activity, which saves a round trip before the first node. The waits
// between attempts are timers of the run, which answers queries meanwhile and says
// what it waits for.
func (v *view) load(ctx workflow.Context, start json.RawMessage) (*plan.Loaded, error) {
	local := workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		Summary:             "compile the plan, admit the input, open the run",
		StartToCloseTimeout: loadTimeout,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	request := contract.LoadRequest{Run: identify(workflow.GetInfo(ctx)), Start: start}
	since, next := workflow.Now(ctx), minLoadWait
	for {
		request.Attempt++
		var loaded *plan.Loaded
		err := workflow.ExecuteLocalActivity(local, contract.ActivityLoad, request).Get(ctx, &loaded)
		if err == nil {
			return loaded, nil
		}
		v.plan = knownOf(err).Plan
		again, after := retriedLoad(err)
		if !again || ctx.Err() != nil || request.Attempt == loadAttempts {
			return nil, err
		}
		if after == 0 {
			after = next
		}
		after, next = min(after, maxLoadWait), min(2*next, maxLoadWait)
		why, kind := readFailure(err, &wait{local: true}), contract.WaitRetry
		if why.Kind == contract.StoreUnavailable {
			kind = contract.WaitStore
		}
		v.awaits(kind, since, workflow.Now(ctx).Add(after), why.Message)
		if stopped := workflow.NewTimerWithOptions(ctx, after, workflow.TimerOptions{Summary: "waits for the store"}).Get(ctx, nil); stopped != nil {
			return nil, err
		}
	}
}

// retriedLoad reports whether engine/load is retried after a failure, and when, if
// the worker says so.
func retriedLoad(err error) (bool, time.Duration) {
	var failed *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var panicked *temporal.PanicError
	if errors.As(err, &failed) {
		return !failed.NonRetryable(), max(failed.NextRetryDelay(), 0)
	}
	return errors.As(err, &timeout) || errors.As(err, &panicked), 0
}

// knownOf returns what engine/load knows about a run that it could not load.
func knownOf(err error) contract.Loading {
	var failed *temporal.ApplicationError
	var details contract.ErrorDetails
	if !errors.As(err, &failed) || !failed.HasDetails() || failed.Details(&details) != nil || details.Loading == nil {
		return contract.Loading{}
	}
	return *details.Loading
}

// announceUnloaded writes the search attributes of a run that ends without its
// plan, as far as engine/load knows them.
func announceUnloaded(ctx workflow.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	known := knownOf(err)
	all := []attribute{{contract.AttributeState, string(contract.RunFailed)}}
	if known.Plan != "" {
		all = append(all, attribute{contract.AttributePlan, known.Plan})
	}
	if known.Agent != "" {
		all = append(all, attribute{contract.AttributeAgent, known.Agent})
	}
	announce(ctx, known.Attributes, all)
}
