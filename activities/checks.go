package activities

import (
	"context"
	"errors"
	"slices"
	"strings"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Precheck is a node that has succeeded before an effect, and the digest of what it has
// returned.
type Precheck struct{ Node, Output string }

// prechecks returns what the prechecks of an effect have returned last, as the role effects
// has stated it, and refuses the effect unless all of them have succeeded. Those of a call
// that was made, or may have been, stay those by which it was permitted.
func (a *Acting) prechecks(ctx context.Context, judge Judge, e *effect, call *contract.Call) ([]Precheck, error) {
	c := e.node.spec.Commit
	if e.node.spec.Effect == plan.Irreversible && (c == nil || len(c.Prechecks) == 0 || c.Verify == nil && c.Waived == "") {
		return nil, contract.Errorf(contract.Blocked, "%s is irreversible, and has no precheck, or neither verify nor a reason why there is none", e.node.spec.ID)
	}
	if len(e.node.spec.Prechecks()) == 0 {
		return nil, nil
	}
	switch i, err := a.Ledger.Invocation(ctx, e.id); {
	case errors.Is(err, ledger.ErrNotFound):
	case err != nil:
		return nil, refusal(err)
	case i.State == ledger.Calling || i.State == ledger.Unknown || i.State == ledger.Settled:
		if all, err := a.permittedBy(ctx, judge, i.DecisionID); err == nil || !errors.Is(err, ledger.ErrNotFound) && !errors.Is(err, ledger.ErrGone) {
			e.called = true
			return all, err
		}
	}
	var all []Precheck
	for _, i := range e.node.spec.Prechecks() {
		id := e.node.plan.Nodes[i].ID
		last, err := a.Ledger.LastCheck(ctx, e.run.Workflow, e.run.Origin, id, call.Visit, "")
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			return nil, contract.Errorf(contract.Blocked, "the role effects has not stated that the precheck %s was called", id)
		case err != nil:
			return nil, refusal(err)
		case last.State != ledger.CheckSucceeded:
			return nil, contract.Errorf(contract.Blocked, "the precheck %s has failed: %s", id, last.Failure)
		}
		all = append(all, Precheck{id, last.OutputDigest})
	}
	slices.SortFunc(all, func(x, y Precheck) int { return strings.Compare(x.Node, y.Node) })
	return all, nil
}

// permittedBy returns what the prechecks had returned by the evidence of a decision.
func (a *Acting) permittedBy(ctx context.Context, judge Judge, decision string) ([]Precheck, error) {
	packet, err := a.packet(ctx, decision)
	if err != nil {
		return nil, err
	}
	all, err := judge.Prechecks(packet)
	if err != nil {
		return nil, contract.Errorf(contract.Blocked, "%w", err)
	}
	return all, nil
}

// rechecked reports whether all prechecks of an effect were called once more after people had
// approved it at a barrier. A call that was made, or may have been, needs that no more.
func (a *Acting) rechecked(ctx context.Context, e *effect, call *contract.Call, barrier string) (bool, error) {
	if e.called {
		return true, nil
	}
	for _, i := range e.node.spec.Prechecks() {
		_, err := a.Ledger.LastCheck(ctx, e.run.Workflow, e.run.Origin, e.node.plan.Nodes[i].ID, call.Visit, barrier)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			return false, nil
		case err != nil:
			return false, refusal(err)
		}
	}
	return true, nil
}

// support calls an operation without effect on which an effect relies, and states what became
// of the call. ctx is the call's, store that of reads and writes.
func (f *Effects) support(ctx, store context.Context, call *contract.Call) (contract.Outcome, error) {
	s, err := f.Authority.State(store)
	if err != nil {
		return contract.Outcome{}, distrust(err)
	}
	run, err := f.running(store, call)
	if errors.Is(err, errUnopened) {
		return contract.Outcome{Unopened: true}, nil
	}
	if err != nil {
		return contract.Outcome{}, err
	}
	n, err := f.vouched(store, s, call)
	if err != nil {
		return contract.Outcome{}, err
	}
	if err := f.approvedAt(store, s, &run, call.Barrier); err != nil {
		return contract.Outcome{}, err
	}
	if err := f.Values.Give(store, call.Run.Workflow, call.Values()...); err != nil {
		return contract.Outcome{}, err
	}
	out, failure := n.run(ctx, f.Caller, call)
	c := ledger.Check{Node: n.spec.ID, Visit: call.Visit, Barrier: call.Barrier, State: ledger.CheckSucceeded, InputDigest: out.Input, OutputDigest: out.Output, Snapshots: out.Snapshots}
	if known := kindOfFailure(ctx, failure); known != nil {
		c.Snapshots = known.Snapshots
		switch known.Kind {
		case contract.StoreUnavailable, contract.WorkerLost, contract.Cancelled:
			return out, failure // it says nothing of what is checked
		default:
			c.State, c.Failure, c.OutputDigest = ledger.CheckFailed, string(known.Kind), ""
		}
	}
	// What is known is recorded also if the worker stops, or the call was cancelled.
	store, stop := context.WithTimeout(context.WithoutCancel(store), settleTime)
	defer stop()
	if _, err := persist(store, func() (ledger.Check, error) { return f.Store.RecordCheck(store, run, c) }); err != nil {
		return contract.Outcome{}, refusal(err)
	}
	if call.Barrier != "" {
		out.Values, out.Held = nil, nil // others have read those of the first call
	}
	return out, failure
}

// approvedAt returns an error unless a barrier is "", or one of the run at which people have
// approved what waits.
func (f *Effects) approvedAt(ctx context.Context, s trust.State, run *ledger.Run, id string) error {
	if id == "" {
		return nil
	}
	b, err := f.Store.Barrier(ctx, id)
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && (b.State != ledger.BarrierApproved || !strings.HasPrefix(b.ID, f.barrierID(s, run, b.Name)+"/")):
		return contract.Errorf(contract.Blocked, "nobody has approved what waits at the barrier %.120q of the run", id)
	case err != nil:
		return refusal(err)
	}
	return nil
}
