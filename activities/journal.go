package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// Write implements the activity engine/journal: it states outcomes of nodes. What
// the ledger already has is not stated again. The caller retries until the store is
// available; if the ledger has something else under the same names, the refusal is
// final.
func (e *Engine) Write(ctx context.Context, request contract.JournalRequest) (contract.JournalReceipt, error) {
	receipt := contract.JournalReceipt{Request: request.Request, Root: request.Run.Root}
	err := e.write(ctx, &request)
	if receipt.Ended = errors.Is(err, errEnded); receipt.Ended {
		err = nil
	}
	return receipt, asked{request: receipt.Request, root: receipt.Root, retry: journaling}.failed(ctx, err)
}

// journaling lists the kinds of failure after which Temporal retries a batch.
var journaling = &plan.Retry{On: []contract.Kind{
	contract.StoreUnavailable, contract.Timeout, contract.Cancelled, contract.WorkerLost, contract.ToolError,
}}

func (e *Engine) write(ctx context.Context, request *contract.JournalRequest) error {
	p, err := e.Plans.Get(ctx, request.Plan)
	if err != nil {
		return contract.Errorf(contract.StoreUnavailable, "the plan cannot be read: %w", err)
	}
	outcomes, err := outcomesOf(p, request.Entries)
	if err != nil || len(outcomes) == 0 && !request.Open {
		return err
	}
	r := runOf(p, request.Plan, request.Run, request.Input)
	return e.stated(ctx, r, func() error { return e.record(ctx, r, outcomes, request.Open, request.Closing) })
}

// record states outcomes. Those of a closing run are dropped if its end has been
// stated.
func (e *Engine) record(ctx context.Context, r ledger.Run, outcomes []ledger.Outcome, open, closing bool) error {
	err := e.Ledger.RecordOutcomes(ctx, r.Workflow, r.Root, outcomes)
	if err == nil && open {
		err = e.opened(ctx, r)
	}
	if !closing || !errors.Is(err, ledger.ErrConflict) {
		return err
	}
	switch have, unread := e.Ledger.Run(ctx, r.Workflow, r.Root); {
	case unread != nil:
		return unread
	case have.State.Ended():
		return nil
	}
	return err
}

var errEnded = errors.New("the run has ended")

// opened refuses a run that is to be open, and has ended: it would ask for that again and again.
func (e *Engine) opened(ctx context.Context, r ledger.Run) error {
	have, err := e.Ledger.Run(ctx, r.Workflow, r.Root)
	if err == nil && have.State.Ended() {
		err = errEnded
	}
	return err
}

// stated does what requires the run to be open. One that was reset is not, until
// something is stated about it.
func (e *Engine) stated(ctx context.Context, r ledger.Run, do func() error) error {
	err := do()
	if !errors.Is(err, ledger.ErrNotFound) {
		return refusal(err)
	}
	if r.Origin != r.Root {
		// The run that it continues has a start grant, or none.
		switch first, err := e.Ledger.Run(ctx, r.Workflow, r.Origin); {
		case err == nil:
			r.Requester, r.Grant, r.GrantDigest = first.Requester, first.Grant, first.GrantDigest
		case !errors.Is(err, ledger.ErrNotFound):
			return refusal(err)
		}
	}
	if err = e.Ledger.OpenRun(ctx, r); err == nil {
		err = do()
	}
	return refusal(err)
}

// refusal assigns an error of the ledger its kind, if it has none.
func refusal(err error) error {
	switch {
	case err == nil, errors.As(err, new(*contract.Error)):
		return err
	case errors.Is(err, ledger.ErrConflict):
		return contract.Errorf(contract.Conflict, "%w", err)
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrGone), errors.Is(err, ledger.ErrInvalid):
		return contract.Errorf(contract.Contract, "%w", err)
	}
	// Any other failure of the store, such as missing tables or rights, says
	// nothing about the request, and can be fixed while the run waits.
	return contract.Errorf(contract.StoreUnavailable, "%w", err)
}

// runOf returns a run of a plan as it is opened.
func runOf(p *plan.Plan, digest string, id contract.Identity, input string) ledger.Run {
	return ledger.Run{
		Workflow: id.Workflow, Root: id.Root, Origin: id.Origin, Agent: p.Agent,
		PlanDigest: digest, PlanName: p.Name, PlanVersion: p.Version, InputDigest: input,
	}
}

func ended(r *ledger.Run, end *contract.RunEnd) error {
	switch end.State {
	case contract.RunSucceeded:
		r.State = ledger.RunSucceeded
	case contract.RunFailed:
		r.State = ledger.RunFailed
	case contract.RunCancelled:
		r.State = ledger.RunCancelled
	case contract.RunLoading, contract.RunRunning, contract.RunPaused:
		return contract.Errorf(contract.Contract, "a run does not end as %s", end.State)
	default:
		return contract.Errorf(contract.Contract, "a run does not end as %.40q", end.State)
	}
	r.OutputDigest = plan.OnlyDigest(end.Output)
	if end.Failure != nil {
		raw, err := json.Marshal(end.Failure)
		if err != nil {
			return fmt.Errorf("write the failure: %w", err)
		}
		r.Failure = raw
	}
	return nil
}

// outcomesOf returns the entries of a request in the form of the ledger.
func outcomesOf(p *plan.Plan, entries []contract.JournalEntry) ([]ledger.Outcome, error) {
	outcomes := make([]ledger.Outcome, 0, len(entries))
	for i := range entries {
		o, err := outcomeOf(p, &entries[i])
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

func outcomeOf(p *plan.Plan, entry *contract.JournalEntry) (ledger.Outcome, error) {
	if entry.Node < 0 || entry.Node >= len(p.Nodes) {
		return ledger.Outcome{}, contract.Errorf(contract.Contract, "the plan has no node %d", entry.Node)
	}
	n := &p.Nodes[entry.Node]
	o := ledger.Outcome{
		Node: n.ID, Visit: entry.Visit, Element: entry.Element, Activity: n.Activity(), Attempts: entry.Attempts,
		InputDigest: plan.OnlyDigest(entry.Input), OutputDigest: plan.OnlyDigest(entry.Output), Snapshots: entry.Snapshots,
	}
	switch entry.State {
	case contract.Succeeded:
		o.Kind = ledger.NodeSucceeded
	case contract.Failed:
		o.Kind = ledger.NodeFailed
	case contract.Skipped:
		o.Kind = ledger.NodeSkipped
	case contract.Pending, contract.Running, contract.Dropped:
		return ledger.Outcome{}, contract.Errorf(contract.Contract, "the node %s has not ended", n.ID)
	default:
		return ledger.Outcome{}, contract.Errorf(contract.Contract, "a node does not end as %.40q", entry.State)
	}
	if entry.Error != nil {
		raw, err := json.Marshal(entry.Error)
		if err != nil {
			return ledger.Outcome{}, fmt.Errorf("write the failure of %s: %w", n.ID, err)
		}
		o.Error = raw
	}
	return o, nil
}
