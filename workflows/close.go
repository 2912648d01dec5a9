package workflows

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
)

// close ends the run as the ledger says it has ended. No event changes that: if an
// end has been stated, as after a workflow task that Temporal has discarded, the
// run's own proposal is dropped.
func (r *run) close() (contract.Result, error) {
	t := teller{ctx: r.steady, view: r.view, crowded: r.answers() >= maxAnswers}
	closed, refused := t.conclude(r.tag, contract.CloseRequest{
		Run: r.identity(), Plan: r.head.Digest, Input: r.head.InputDigest,
		Entries: r.journal.left(), End: r.end, Output: r.output,
	}, r.journal.elsewhere)
	if refused != nil {
		f := unrecorded(refused)
		closed = contract.Closed{End: contract.RunEnd{State: contract.RunFailed, Failure: &f}}
	}
	result, err := r.view.close(closed)
	r.announce(r.view.state, false)
	workflow.SetCurrentDetails(r.ctx, r.details(r.view.state))
	return result, err
}

// conclude states the end of a run with all outcomes that the ledger may not have,
// and returns the stated end. It waits for an unavailable store, however long. The
// failure is that of a ledger that refuses because it has something else under the
// same name.
//
// Outcomes before the end are recorded by ordinary activities. By then the history
// has what they record, so that the run records the same again after a workflow
// task that Temporal has discarded. Outcomes written for another run go with the
// end, however many they are, since the history before a reset may not have another
// request. They come first, since engine/close may state the first of many before
// the end.
func (t teller) conclude(tag string, end contract.CloseRequest, elsewhere []contract.JournalEntry) (contract.Closed, *failure) {
	t.root, t.timeout, t.since = end.Run.Root, journalTimeout, workflow.Now(t.ctx)
	t.waits("")
	for n := 1; len(end.Entries) > contract.MaxEntries; n++ {
		request := contract.JournalRequest{
			Run: end.Run, Plan: end.Plan, Input: end.Input, Entries: end.Entries[:contract.MaxEntries],
			Request: tag + "/engine/close#" + strconv.Itoa(n), Closing: true,
		}
		receipt, f := insist(&t, contract.ActivityJournal, request, func(a *contract.JournalReceipt) bool { return a.Request == request.Request })
		if f != nil {
			return contract.Closed{}, f
		}
		if receipt.Root != t.root {
			elsewhere = append(elsewhere, request.Entries...)
		}
		end.Entries = end.Entries[contract.MaxEntries:]
	}
	t.timeout += time.Duration(len(elsewhere)/contract.MaxEntries) * time.Second
	end.Entries = slices.Concat(elsewhere, end.Entries)
	return tell(&t, contract.ActivityClose, end, func(a *contract.Closed) bool { return a.Root == t.root })
}

// teller records in the ledger what must be there before a run ends.
type teller struct {
	ctx workflow.Context
	// view shows what the run waits for, and since when.
	view  *view
	since time.Time
	// root is that of the run.
	root string
	// crowded reports that too many answers may arrive meanwhile for a local
	// activity.
	crowded bool
	// launches counts the ordinary activities.
	launches int
	// timeout is long enough for what is recorded, however busy the store is.
	timeout time.Duration
}

// waits says what the run waits for, and why, if that is known.
func (t *teller) waits(why string) {
	detail := "the run's end, on its way to the ledger"
	if why != "" {
		detail += ": " + why
	}
	t.view.awaits(contract.WaitJournal, t.since, time.Time{}, detail)
}

// tell runs an activity as a local one, which costs one event, if it may, and then
// insists.
func tell[T any](t *teller, activity string, request any, right func(*T) bool) (T, *failure) {
	if t.crowded {
		return insist(t, activity, request, right)
	}
	answer, final, f := read(t, workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(t.ctx, workflow.LocalActivityOptions{
		Summary: activity, StartToCloseTimeout: t.timeout, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	}), activity, request), right)
	if final {
		return answer, f
	}
	return insist(t, activity, request, right)
}

// insist runs an activity, which Temporal retries until the store is available,
// until it has the right answer.
func insist[T any](t *teller, activity string, request any, right func(*T) bool) (T, *failure) {
	for wrong := 0; ; wrong++ {
		t.launches++
		began := workflow.Now(t.ctx)
		answer, final, f := read(t, workflow.ExecuteActivity(workflow.WithActivityOptions(t.ctx, workflow.ActivityOptions{
			TaskQueue: contract.QueueJournal, ActivityID: activity + "/end#" + strconv.Itoa(t.launches), Summary: activity,
			StartToCloseTimeout: t.timeout, ScheduleToCloseTimeout: tryTime, RetryPolicy: recording,
		}), activity, request), right)
		if final {
			return answer, f
		}
		if workflow.Now(t.ctx).Sub(began) >= maxPause {
			wrong = 0 // the store was away, or it costs few events anyway
		}
		_ = workflow.NewTimerWithOptions(t.ctx, pause(wrong), workflow.TimerOptions{Summary: "waits for the ledger"}).Get(t.ctx, nil)
	}
}

// maxPause bounds the wait after an answer that is not from this deployment. Each
// such answer costs about nine events, and a closing run cannot continue as new.
const maxPause = 15 * time.Minute

// pause is the wait before the next attempt after so many such answers.
func pause(wrong int) time.Duration { return min(minBackoff<<min(wrong, 10), maxPause) }

// read returns an answer, and reports whether it is final: the right one, or a
// refusal, which is f. It decodes each answer into a new value, so that nothing of
// an earlier one remains.
func read[T any](t *teller, answered workflow.Future, right func(*T) bool) (answer T, final bool, f *failure) {
	err := answered.Get(t.ctx, &answer)
	if err == nil {
		return answer, right(&answer), nil
	}
	said := readEnd(t.ctx, err)
	if said.refused(t.root) {
		return answer, true, &said
	}
	workflow.GetLogger(t.ctx).Warn("the end of the run was not written", "kind", said.Kind)
	t.waits(said.Message)
	return answer, false, nil
}

// close returns what the workflow returns for the stated end.
func (v *view) close(closed contract.Closed) (contract.Result, error) {
	end := closed.End
	v.stands = closed.Nodes
	switch {
	case end.State == contract.RunSucceeded && closed.Output == nil:
		return nil, v.fail(contract.Failure{Kind: contract.Contract, Message: "the run has succeeded, and its output is no longer in the ledger"})
	case end.State == contract.RunSucceeded:
		v.state = contract.RunSucceeded
		return contract.Result(closed.Output), nil
	case end.Failure == nil:
		return nil, v.fail(contract.Failure{Kind: contract.Contract, Message: "the run has ended as " + string(end.State) + ", and its failure is no longer in the ledger"})
	case end.State == contract.RunCancelled:
		f := complete(*end.Failure)
		v.state, v.failure = contract.RunCancelled, &f
		return nil, temporal.NewCanceledError(f)
	}
	return nil, v.fail(*end.Failure)
}

// unloaded ends a run whose plan was not loaded. engine/load may nevertheless have
// opened it in the ledger.
func (v *view) unloaded(ctx workflow.Context, err error) (contract.Result, error) {
	read := readFailure(err, nil)
	f := complete(contract.Failure{Kind: read.Kind, Message: read.Message, Diagnostics: read.diagnostics})
	end := contract.RunEnd{State: contract.RunFailed, Failure: &f}
	if ctx.Err() != nil {
		f = complete(contract.Failure{Kind: contract.Cancelled, Message: "the run was cancelled"})
		end.State = contract.RunCancelled
	}
	var said *contract.SealedError
	if errors.As(err, &said) {
		ctx = sealedWith(ctx, said.Key) // nothing else is known of the run's key
	}
	steady, _ := workflow.NewDisconnectedContext(ctx)
	id := identify(workflow.GetInfo(ctx))
	t := teller{ctx: steady, view: v}
	closed, refused := t.conclude(id.Origin, contract.CloseRequest{Run: id, End: end}, nil)
	if refused != nil {
		return nil, v.fail(unrecorded(refused))
	}
	return v.close(closed)
}

// readEnd reads the failure of recording before the end.
func readEnd(ctx workflow.Context, err error) failure {
	key, _ := ctx.Value(contract.SealedWith{}).(string)
	if f := foreign(err, key); f != nil {
		return *f
	}
	return readFailure(err, nil)
}
