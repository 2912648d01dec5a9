package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/activity"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// Outputs stores the outputs of runs so that only the run's own workflow can read
// them.
type Outputs interface {
	// Keep returns the form in which the output of a workflow's run is stored
	// in the ledger, of at most [ledger.MaxRunValue] bytes: a large output is
	// stored apart, and referred to.
	Keep(ctx context.Context, workflow string, output json.RawMessage) ([]byte, error)
	// Give reads it. Its error is a [contract.Error], of kind
	// [contract.StoreUnavailable] if it may be read later.
	Give(ctx context.Context, workflow string, kept []byte) (json.RawMessage, error)
}

// Close implements the activity engine/close: it states the last outcomes and the
// end of a run, unless an end has been stated, and returns the stated end, with
// which the run closes. So it may be called again, also with another end. The
// answer for a run that succeeded has no output if another was proposed and the
// stated one can no longer be read, as after an erasure.
func (e *Engine) Close(ctx context.Context, request contract.CloseRequest) (contract.Closed, error) {
	store, stop := storing(ctx, 0)
	defer stop()
	closed, err := e.close(store, &request)
	return closed, asked{root: request.Run.Root, retry: journaling}.failed(ctx, err)
}

func (e *Engine) close(ctx context.Context, request *contract.CloseRequest) (contract.Closed, error) {
	opened := ledger.Run{Workflow: request.Run.Workflow, Root: request.Run.Root, Origin: request.Run.Origin}
	var last []ledger.Outcome
	var p *plan.Plan
	switch {
	case request.Plan != "":
		var err error
		p, err = e.Plans.Get(ctx, request.Plan)
		if err != nil {
			return contract.Closed{}, contract.Errorf(contract.StoreUnavailable, "the plan cannot be read: %w", err)
		}
		if last, err = outcomesOf(p, request.Entries); err != nil {
			return contract.Closed{}, err
		}
		opened = runOf(p, request.Plan, request.Run, request.Input)
	case len(request.Entries) > 0:
		return contract.Closed{}, contract.Errorf(contract.Contract, "a run without a plan has no outcomes")
	}
	proposed := opened
	if err := ended(&proposed, &request.End); err != nil {
		return contract.Closed{}, err
	}
	if proposed.State == ledger.RunSucceeded && len(request.Output) > 0 {
		err := e.Values.Give(ctx, proposed.Workflow, &request.Output)
		if err != nil {
			return contract.Closed{}, err
		}
		if proposed.Value, err = e.keep(ctx, &proposed, request.Output); err != nil {
			return contract.Closed{}, err
		}
	}
	var stands ledger.Run
	var stood bool
	state := func() (err error) {
		// The last outcomes go with the end, since the history of the run may not have
		// them yet. After a reset there are others, which it has.
		for len(last) > contract.MaxEntries {
			n := min(len(last)-contract.MaxEntries, contract.MaxEntries)
			if err := e.record(ctx, opened, last[:n], false, true); err != nil {
				return err
			}
			last = last[n:]
		}
		stands, stood, err = e.Ledger.CloseRun(ctx, proposed, last)
		return err
	}
	if request.Plan == "" {
		err := state()
		if errors.Is(err, ledger.ErrNotFound) {
			return contract.Closed{Root: request.Run.Root, End: request.End, Output: request.Output}, nil
		}
		if err != nil {
			return contract.Closed{}, refusal(err)
		}
	} else if err := e.stated(ctx, opened, state); err != nil {
		return contract.Closed{}, err
	}
	closed, err := e.standing(ctx, request, &stands)
	if err == nil && stood && p != nil {
		closed.Nodes, err = e.nodes(ctx, p, &stands)
	}
	return closed, err
}

// keep returns the form in which the output of a run is stored, the same for each
// attempt to end it.
func (e *Engine) keep(ctx context.Context, r *ledger.Run, output json.RawMessage) ([]byte, error) {
	name := r.Workflow + "\n" + r.Root + "\n" + plan.DigestOf(output)
	if value, ok := e.outputs.get(name); ok {
		return []byte(value), nil
	}
	value, err := e.Outputs.Keep(ctx, r.Workflow, output)
	if err == nil {
		e.outputs.remember(name, string(value))
	}
	return value, err
}

// outcomesPage is how many outcomes are read at a time.
const outcomesPage = 10_000

// nodes returns what the ledger has about a plan's nodes in a run that has ended.
func (e *Engine) nodes(ctx context.Context, p *plan.Plan, r *ledger.Run) (contract.NodeStates, error) {
	at := make(map[string]int, len(p.Nodes))
	for i := range p.Nodes {
		at[p.Nodes[i].ID] = i
	}
	states := make([]contract.NodeState, len(p.Nodes))
	for offset := 0; ; offset += outcomesPage {
		page, err := e.Ledger.Outcomes(ctx, r.Workflow, r.Root, ledger.Page{Limit: outcomesPage, Offset: offset})
		if err != nil {
			return "", refusal(err)
		}
		for _, o := range page {
			i, ok := at[o.Node]
			if !ok {
				continue
			}
			switch o.Kind {
			case ledger.NodeSucceeded:
				states[i] = contract.Succeeded
			case ledger.NodeFailed:
				states[i] = contract.Failed
			case ledger.NodeSkipped:
				states[i] = contract.Skipped
			}
		}
		if len(page) < outcomesPage {
			return contract.Letters(states), nil
		}
	}
}

// standing is the answer to a request for a run in that state.
func (e *Engine) standing(ctx context.Context, request *contract.CloseRequest, r *ledger.Run) (contract.Closed, error) {
	closed := contract.Closed{Root: r.Root, End: contract.RunEnd{Output: r.OutputDigest}}
	switch r.State {
	case ledger.RunSucceeded:
		closed.End.State = contract.RunSucceeded
		var err error
		closed.Output, err = e.output(ctx, request, r)
		return closed, err
	case ledger.RunFailed:
		closed.End.State = contract.RunFailed
		closed.End.Failure = erased(contract.FailedKind)
	case ledger.RunCancelled:
		closed.End.State = contract.RunCancelled
		closed.End.Failure = erased(contract.Cancelled)
	case ledger.RunTerminated, ledger.RunTimedOut, ledger.RunRunning:
		// Temporal has reported the end of an execution, which no longer asks for
		// anything.
		return closed, contract.Errorf(contract.Conflict, "the ledger has the run as %s", r.State)
	}
	if len(r.Failure) > 0 {
		if err := json.Unmarshal(r.Failure, closed.End.Failure); err != nil {
			return closed, contract.Errorf(contract.Contract, "the failure that the ledger has cannot be read: %w", err)
		}
	}
	return closed, nil
}

// erased is the failure of a run whose own failure has been erased.
func erased(kind contract.Kind) *contract.Failure {
	return &contract.Failure{
		Kind: kind, Message: "how it ended was erased, with the person whom it was about", Compensated: []string{}, NotCompensated: []string{},
	}
}

// output is that of a run that has succeeded, or nil if it cannot be read.
func (e *Engine) output(ctx context.Context, request *contract.CloseRequest, r *ledger.Run) (json.RawMessage, error) {
	switch {
	case request.End.State == contract.RunSucceeded && (r.OutputDigest == "" || r.OutputDigest == request.End.Output):
		// The outputs are the same, whoever stated them. The ledger lacks the digest if
		// the person whom the run is about was erased; the run's own history still has the
		// value.
		return request.Output, nil
	case len(r.Value) == 0:
		return nil, nil
	}
	output, err := e.Outputs.Give(ctx, r.Workflow, r.Value)
	if err == nil {
		return output, nil
	}
	err = fmt.Errorf("the output that the ledger has of the run: %w", err)
	if kind := kindOf(ctx, err).Kind; kind == contract.StoreUnavailable || kind == contract.Timeout || kind == contract.Cancelled {
		return nil, err
	}
	// Another attempt would have the same result.
	activity.GetLogger(ctx).Error("The output of a run that has succeeded cannot be read", "run", r.Workflow, "error", err)
	return nil, nil
}
