package activities

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Effects implements the activities of the role that calls effects: every activity type
// that is a node's "provider/operation".
type Effects struct {
	*Acting
	Store  EffectsStore
	Caller Caller
	// Outputs stores what calls answered, for their invocations alone.
	Outputs Outputs
}

// EffectsStore is what the role writes.
type EffectsStore interface {
	Claim(ctx context.Context, id, decision, token string, d time.Duration) (ledger.Invocation, error)
	Settle(ctx context.Context, id string, e ledger.Effect) (ledger.Invocation, error)
	Invocation(ctx context.Context, id string) (ledger.Invocation, error)
	Barrier(ctx context.Context, id string) (ledger.Barrier, error)
	RecordCheck(ctx context.Context, run ledger.Run, c ledger.Check) (ledger.Check, error)
}

// Node implements the activity types "provider/operation" on the queue of effects. With a
// permit it calls, once; otherwise it says what an earlier call did. What an effect relies
// on it calls without.
func (f *Effects) Node(ctx context.Context, call contract.Call) (contract.Outcome, error) {
	defer beat(ctx, &call)()
	wanted := ctx
	if call.Permit != nil {
		steady, release := awaited(ctx)
		defer release()
		ctx = steady
	}
	store, stop := storing(ctx, 0)
	defer stop()
	var out contract.Outcome
	asked := of(&call, nil)
	err := waited(store, f.Plans, call.Patient)
	if err == nil && !call.Probe {
		err = recovered("an effect", func() (err error) {
			if out, asked.retry, err = f.call(ctx, store, wanted, &call); err != nil {
				asked.listed, err = f.listed(store, &call, err)
				return err
			}
			return f.Values.Keep(store, call.Run.Workflow, out.Values, call.Lean)
		})
	}
	if attempts := asked.attempts(ctx); attempts > 1 {
		out.Attempts = attempts
	}
	out.Request, out.Probed = call.Request, call.Probe
	if e := new(contract.Error); call.Permit != nil && interrupted(wanted) && errors.As(err, &e) && e.Kind == contract.Unsent {
		err = contract.Errorf(contract.WorkerLost, "this worker did not get to send the call: %w", err)
	}
	return out, asked.failed(ctx, err)
}

// awaited returns a context that ends as that of an activity does, but not because the run cancels it:
// whatever may have an effect is awaited.
func awaited(ctx context.Context) (context.Context, context.CancelFunc) {
	steady, release := context.WithoutCancel(ctx), func() {}
	if end, ok := ctx.Deadline(); ok {
		steady, release = context.WithDeadline(steady, end)
	}
	steady, cancel := context.WithCancelCause(steady)
	stop := context.AfterFunc(ctx, func() { passOn(ctx, cancel) })
	return steady, func() {
		stop()
		cancel(nil)
		release()
	}
}

// passOn cancels what goes on after the cancellation of a run, if ctx has ended in another way.
func passOn(ctx context.Context, cancel context.CancelCauseFunc) {
	if interrupted(ctx) {
		cancel(context.Cause(ctx))
	}
}

// listed stores the definition with which a failed call may be made once people have approved that,
// if there is one that they can review.
func (f *Effects) listed(store context.Context, call *contract.Call, failure error) (contract.Value, error) {
	e := new(contract.Error)
	if call.Permit == nil || !errors.As(failure, &e) || e.Kind != contract.NeedsReview || e.Listed == nil {
		return nil, failure
	}
	n, err := find(store, f.Plans, call.Plan, call.Node)
	if err != nil {
		return nil, err
	}
	bench := f.Bench()
	if bench.Definition == nil || !reviewable(bench.Definition(n.spec.Activity(), n.spec.Fingerprint), e.Listed) {
		return nil, failure
	}
	values := []contract.Value{e.Listed}
	if err := f.Values.Keep(store, call.Run.Workflow, values, call.Lean); err != nil {
		return nil, err
	}
	return values[0], failure
}

// maxDefinition and maxWords are the guardian's bounds of each definition and of the words that differ,
// in bytes. It rejects what exceeds them; what is not offered to it needs a review elsewhere.
const (
	maxDefinition = 64 << 10
	maxWords      = 16 << 10
)

// reviewable reports whether people can be asked to read how two definitions differ.
func reviewable(pinned, listed json.RawMessage) bool {
	if len(pinned) > maxDefinition || len(listed) > maxDefinition {
		return false
	}
	words, err := fingerprint.Compare(pinned, listed)
	n := 0
	for _, w := range words {
		n += len(w.Was) + len(w.Is)
	}
	return err == nil && n <= maxWords
}

// call makes the call of a node, or says what an earlier one did. ctx is the call's, store
// that of reads and writes, and wanted that of the activity.
func (f *Effects) call(ctx, store, wanted context.Context, call *contract.Call) (out contract.Outcome, retry *plan.Retry, err error) {
	n, err := find(store, f.Plans, call.Plan, call.Node)
	if err != nil {
		return out, nil, err
	}
	if call.Undo != "" {
		out, err = f.undo(ctx, store, call)
		return out, nil, err
	}
	if n.spec.Relied {
		out, err = f.support(ctx, store, call)
		return out, &n.spec.Retry, err
	}
	e, err := f.effect(store, call)
	if err != nil {
		return out, nil, err
	}
	if call.Permit == nil {
		out, err = f.recall(ctx, store, e, call)
	} else {
		out, err = f.act(ctx, store, wanted, e, call)
	}
	return out, &n.spec.Retry, err
}

// act uses a permit for one call. ctx is the call's, store that of reads and writes. A call that nobody
// wants any more is claimed, too, and released: so the ledger says that it was not made.
func (f *Effects) act(ctx, store, wanted context.Context, e *effect, call *contract.Call) (contract.Outcome, error) {
	p, err := trust.VerifyPermit(e.state, call.Permit.Envelope, trust.Permit{Invocation: e.id, Call: e.call().Digest(call.Permit.Salt)}, time.Now())
	if errors.Is(err, trust.ErrExpired) {
		return contract.Outcome{}, lateUse(err)
	}
	if err != nil {
		return contract.Outcome{}, distrust(err)
	}
	if err := f.licensed(store, e, call, p.Issued.Time()); err != nil {
		return contract.Outcome{}, err
	}
	if undone, err := f.wasUndone(store, e, call); err != nil {
		return contract.Outcome{}, err
	} else if undone {
		return contract.Outcome{}, f.unknown(nil)
	}
	token := rand.Text()
	lasts := time.Duration(e.node.spec.TimeoutMS)*time.Millisecond + 2*overtime
	begin := time.Now()
	i, err := persist(store, func() (ledger.Invocation, error) { return f.Store.Claim(store, e.id, p.Decision, token, lasts) })
	switch {
	case errors.Is(err, ledger.ErrExpired):
		return contract.Outcome{}, lateUse(err)
	case errors.Is(err, ledger.ErrConflict):
		return f.recall(ctx, store, e, call)
	case err != nil:
		return contract.Outcome{}, refusal(err)
	}
	// The call ends before the store takes it for over.
	within, cancel := context.WithDeadline(ctx, begin.Add(lasts-overtime))
	defer cancel()
	request := e.node.request(e.input, e.run.Origin)
	request.Fingerprint, request.Wanted = e.fingerprint, wanted
	answer, err := invoke(within, f.Caller, request)
	var output any
	if err == nil {
		err = recovered("what checks an output", func() (err error) {
			output, err = e.node.accept(answer.Forms)
			return err
		})
	}
	if err != nil {
		err = looked(ctx, err, answer.Snapshots)
	}
	// What is known is recorded also if the worker stops, or the call was cancelled. A slow store
	// has as long as the call might have taken: until then no role takes the call for over.
	latest := time.Now().Add(settleTime)
	if end := begin.Add(lasts); ctx.Err() == nil && end.After(latest) {
		latest = end
	}
	store, stop := context.WithDeadline(context.WithoutCancel(store), latest)
	defer stop()
	return f.settle(ctx, store, e, call, claim{i.Attempt, token, p.Decision}, output, answer.Snapshots, err)
}

// lateUse is the failure of a call whose permit was not used in time. Nothing was sent:
// another permit is asked for.
func lateUse(err error) error {
	return contract.Errorf(contract.WorkerLost, "the permit was not used in time: %w", err)
}

// settleTime is how long the end of a call is tried to be recorded, at least: less than an
// activity has beyond its node's own timeout.
const settleTime = 8 * time.Second

// answered is what is stored of a call that answered.
type answered struct {
	Output json.RawMessage        `json:"output,omitempty"`
	Error  *contract.ErrorPayload `json:"error,omitempty"`
}

// claim is a call that was begun here, with the token that ends it, and the decision that permits it.
type claim struct {
	attempt  int
	token    string
	decision string
}

// settle records how a call ended. A failure has its own snapshots.
func (f *Effects) settle(ctx, store context.Context, e *effect, call *contract.Call, begun claim, output any, seen *contract.Snapshots, failure error) (contract.Outcome, error) {
	var err error
	settlement := ledger.Effect{Settlement: ledger.Settlement{Attempt: begun.attempt, State: ledger.Settled, Snapshots: seen}, Token: begun.token}
	var whole []byte
	if failure == nil {
		if whole, err = plan.Canonical(output); err != nil {
			failure = contract.Errorf(contract.InvalidOutput, "the output of %s: %w", e.node.spec.ID, err)
		}
	}
	var record answered
	known := kindOfFailure(ctx, failure)
	if known != nil && known.Snapshots != nil {
		settlement.Snapshots = known.Snapshots
	}
	switch {
	case known == nil:
		record.Output = whole
		settlement.OutputDigest = plan.DigestOf(whole)
		settlement.Spent = charged(e.node.spec, output, e.input)
		settlement.Observation = f.observed(store, e, begun.decision, whole)
		settlement.Result, err = json.Marshal(map[string]string{"output_digest": settlement.OutputDigest})
	case known.Kind.NothingSent():
		settlement.State = ledger.Released
	case !answers(known.Kind), e.again(call, known.Kind):
		settlement.State = ledger.Unknown
	default:
		record.Error = &contract.ErrorPayload{Kind: known.Kind, Message: known.Message, Details: known.Details}
		settlement.Result, err = json.Marshal(map[string]any{"error": map[string]string{"kind": string(known.Kind)}})
	}
	if err == nil && settlement.State == ledger.Settled {
		var raw []byte
		if raw, err = json.Marshal(record); err == nil {
			settlement.Output, err = f.Outputs.Keep(store, scopeOf(e.id), raw)
		}
	}
	if err == nil {
		_, err = persist(store, func() (ledger.Invocation, error) { return f.Store.Settle(store, e.id, settlement) })
		if errors.Is(err, ledger.ErrAmount) {
			// It has cost more than was held, so all of that is spent.
			settlement.Spent = nil
			_, err = persist(store, func() (ledger.Invocation, error) { return f.Store.Settle(store, e.id, settlement) })
		}
	}
	switch {
	case err != nil:
		// Until its time is over nobody calls again, and then what it did is to be found out.
		return contract.Outcome{}, contract.Errorf(contract.WorkerLost, "the end of the call is not recorded: %w", err)
	case settlement.State == ledger.Unknown && (e.verify() != nil || f.asks(e)):
		return contract.Outcome{}, contract.Errorf(contract.WorkerLost, "what the call did is to be found out: %w", failure)
	case settlement.State == ledger.Unknown && !repeatable(e.node.spec):
		return contract.Outcome{}, f.unknown(failure)
	case failure != nil:
		return contract.Outcome{}, failure
	}
	out, err := e.outcome(output, settlement.OutputDigest)
	out.Snapshots = seen
	return out, err
}

// kindOfFailure is the failure of a call with its kind, or nil.
func kindOfFailure(ctx context.Context, err error) *contract.Error {
	if err == nil {
		return nil
	}
	return kindOf(ctx, err)
}

// again reports whether the node's contract makes a call without effect once more, with the
// hold and the approvals that it has.
func (e *effect) again(call *contract.Call, kind contract.Kind) bool {
	return e.node.spec.Effect == plan.Pure && e.node.spec.Retry.Again(kind, call.Spent+1)
}

// answers reports whether a failure of a kind is the tool's own answer.
func answers(k contract.Kind) bool { return k == contract.ToolError || k == contract.InvalidOutput }

// unknown is the failure of a node that may have had its effect.
func (f *Effects) unknown(cause error) error {
	if cause == nil {
		return contract.Errorf(contract.OutcomeUnknown, "a call was made, and nobody knows what it did")
	}
	e := contract.Errorf(contract.OutcomeUnknown, "a call was made, and nobody knows what it did: %w", cause)
	if of := new(contract.Error); errors.As(cause, &of) {
		e.Snapshots = of.Snapshots
	}
	return e
}

// scopeOf names the owner of a stored output: no workflow has such an id in the log, since
// a run's has no slash at its beginning.
func scopeOf(invocation string) string { return "/invocation/" + invocation }

// recall says what an earlier call of an effect did. One whose time is over, and that may
// not be repeated, it records as unknown; if the node can be verified, that tells.
func (f *Effects) recall(ctx, store context.Context, e *effect, call *contract.Call) (contract.Outcome, error) {
	i, err := persist(store, func() (ledger.Invocation, error) { return f.Store.Invocation(store, e.id) })
	if err != nil {
		return contract.Outcome{}, refusal(err)
	}
	if i.State == ledger.Calling {
		lost := ledger.Effect{Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Unknown, Abandoned: true}}
		i, err = persist(store, func() (ledger.Invocation, error) { return f.Store.Settle(store, e.id, lost) })
		if err != nil && !errors.Is(err, ledger.ErrConflict) {
			return contract.Outcome{}, refusal(err)
		}
	}
	undone := false
	if i.State.Undoable() {
		if undone, err = f.wasUndone(store, e, call); err != nil {
			return contract.Outcome{}, err
		}
	}
	switch i.State {
	case ledger.Settled:
	case ledger.Unknown:
		switch {
		case undone:
			return contract.Outcome{}, f.unknown(nil)
		case call.Stated != nil:
			return f.resolveStated(ctx, store, e, call.Stated, i)
		case e.verify() != nil:
			return f.resolve(ctx, store, e, call, i)
		}
		return f.unresolved(ctx, e, &i, f.unknown(nil))
	case ledger.Permitted, ledger.Calling, ledger.Released:
		// Another permit is asked for, when it is time.
		return contract.Outcome{}, contract.Errorf(contract.WorkerLost, "the effect is %s by another call", i.State)
	}
	if i.Output == nil {
		return contract.Outcome{}, contract.Errorf(contract.InvalidOutput, "the effect has happened, and what it answered is no longer kept")
	}
	record, err := f.answered(store, &i)
	if err != nil {
		return contract.Outcome{}, err
	}
	if record.Error != nil {
		return contract.Outcome{}, &contract.Error{Kind: record.Error.Kind, Message: record.Error.Message, Details: record.Error.Details}
	}
	if undone {
		return contract.Outcome{}, contract.Errorf(contract.Conflict, "the effect has happened, and was undone since")
	}
	output, err := e.node.check(e.node.output, record.Output, contract.InvalidOutput, "the output of "+e.node.spec.ID)
	if err != nil {
		return contract.Outcome{}, err
	}
	return e.outcome(output, i.OutputDigest)
}

// answered reads what is stored of a call that answered.
func (f *Effects) answered(ctx context.Context, i *ledger.Invocation) (record answered, err error) {
	raw, err := f.Outputs.Give(ctx, scopeOf(i.ID), i.Output)
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(raw, &record); err != nil {
		return record, fmt.Errorf("read what the effect answered: %w", err)
	}
	return record, nil
}

// outcome is that of the node of an effect.
func (e *effect) outcome(output any, digest string) (contract.Outcome, error) {
	out, err := e.node.outcome(output, e.planInput)
	out.Input, out.Output = plan.DigestOf(e.input), digest
	return out, err
}

// charged is what a call has cost by its output, where the operator attests that, or nil:
// then all that was held is spent.
func charged(n *plan.Node, output any, input []byte) *ledger.Money {
	if n.Cost == nil || !n.Cost.FromOutput {
		return nil
	}
	m, err := amount(n.Cost, expr.Charge, expr.Vars{"output": output}, input)
	if err != nil {
		return nil
	}
	return m
}
