package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// DefaultEndsEvery is how often the host that sequences the log asks Temporal about
// runs that are open in the ledger.
const DefaultEndsEvery = 15 * time.Second

const (
	// endsPerRound bounds the runs checked in one round, and endsPage those read from the
	// ledger at once.
	endsPerRound, endsPage = 2000, 100
	// endsHops bounds how many executions of one run are followed in one round.
	endsHops = 20
	// endsFailures is the number of errors after which a round ends: the cause may be one
	// run, or Temporal.
	endsFailures = 3
	// endsCall bounds one call to Temporal.
	endsCall = 10 * time.Second
	// endsGrace is the number of rounds for which a run that has ended may state its end
	// itself, before the host does: a minute, by default.
	endsGrace = 4
)

// ends closes runs in the ledger that can no longer do so themselves: they were
// terminated, timed out, or ended before a worker could state that they had begun.
type ends struct {
	client client.Client
	runs   ledger.Runs
	logger *slog.Logger
	every  time.Duration

	// at is the run after which the next round continues.
	at ledger.Run
	// known holds, by chain, the last known execution of each open run, or "" if Temporal
	// does not know the run. next is its successor after this pass through the ledger, so
	// that it holds only open runs.
	known, next map[string]string
	failed      string
}

// run works until ctx ends.
func (e *ends) run(ctx context.Context) {
	e.known, e.next = map[string]string{}, map[string]string{}
	for {
		err := e.round(ctx)
		switch {
		case err == nil:
			e.failed = ""
		case ctx.Err() == nil && err.Error() != e.failed:
			e.failed = err.Error()
			e.logger.WarnContext(ctx, "open runs of the ledger were not compared with Temporal; this is tried again", "error", err)
		}
		timer := time.NewTimer(e.every)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// round checks the next open runs, up to the last one.
func (e *ends) round(ctx context.Context) error {
	unknown := 0
	var example string
	defer func() {
		if unknown > 0 {
			e.logger.WarnContext(ctx, "the ledger has runs open that Temporal does not know, or not any more; they stay open",
				"count", unknown, "for example", example)
		}
	}()
	var failures []error
	for range endsPerRound / endsPage {
		page, err := e.runs.OpenRuns(ctx, e.at.Workflow, e.at.Root, endsPage)
		if err != nil {
			return err
		}
		for i := range page {
			e.at = page[i]
			last, before := e.known[e.at.Chain()]
			if before && last == "" {
				e.next[e.at.Chain()] = ""
				continue
			}
			if err := e.look(ctx, &page[i]); err != nil {
				if failures = append(failures, err); len(failures) == endsFailures || ctx.Err() != nil {
					return failures[0]
				}
				continue
			}
			if now, there := e.next[e.at.Chain()]; there && now == "" {
				unknown++
				example = e.at.Workflow
			}
		}
		if len(page) < endsPage {
			e.at, e.known, e.next = ledger.Run{}, e.next, map[string]string{}
			break
		}
	}
	if len(failures) > 0 {
		return failures[0]
	}
	return nil
}

// look closes one run, if Temporal has closed it.
func (e *ends) look(ctx context.Context, r *ledger.Run) error {
	info, err := e.execution(ctx, r)
	if err != nil {
		return fmt.Errorf("ask for the run %s: %w", r.Workflow, err)
	}
	end := ledger.Run{Workflow: r.Workflow, Root: r.Root}
	switch info.GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED:
		end.State = ledger.RunTerminated
	case enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:
		end.State = ledger.RunTimedOut
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:
		if time.Since(info.GetCloseTime().AsTime()) < endsGrace*e.every {
			return nil
		}
		if err := e.told(ctx, info, &end); err != nil {
			return fmt.Errorf("ask how the run %s ended: %w", r.Workflow, err)
		}
	default: // it runs, or its state is not known
		return nil
	}
	stands, _, err := e.runs.CloseRun(ctx, end, nil)
	if errors.Is(err, ledger.ErrInvalid) && len(end.Failure) > 0 {
		// No run of the engine's says what the ledger does not take.
		if end.Failure, err = json.Marshal(unsaid(end.State)); err == nil {
			stands, _, err = e.runs.CloseRun(ctx, end, nil)
		}
	}
	if err != nil {
		return err
	}
	delete(e.next, r.Chain())
	e.logger.InfoContext(ctx, "a run was closed in the ledger as Temporal has ended it", "run", r.Workflow, "root", r.Root, "state", stands.State)
	return nil
}

// execution describes the last execution of a run, or returns nil if it is not known.
// It follows each execution to the one that it continued as, since a reset is a run of
// its own whose executions name the same first one.
func (e *ends) execution(ctx context.Context, r *ledger.Run) (*workflowpb.WorkflowExecutionInfo, error) {
	id := e.known[r.Chain()]
	if id == "" {
		id = r.Root
	}
	for range endsHops {
		described, err := e.describe(ctx, r.Workflow, id)
		if absent(err) {
			return e.latest(ctx, r)
		}
		if err != nil {
			return nil, err
		}
		e.next[r.Chain()] = id
		info := described.GetWorkflowExecutionInfo()
		if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW {
			return info, nil
		}
		id, err = e.successor(ctx, r.Workflow, id)
		if absent(err) {
			return e.latest(ctx, r)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil // the next round continues
}

func (e *ends) describe(ctx context.Context, workflow, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, endsCall)
	defer cancel()
	return e.client.DescribeWorkflowExecution(ctx, workflow, id)
}

// successor returns the execution that another one continued as.
func (e *ends) successor(ctx context.Context, workflow, id string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, endsCall)
	defer cancel()
	last := e.client.GetWorkflowHistory(ctx, workflow, id, false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	for last.HasNext() {
		event, err := last.Next()
		if err != nil {
			return "", err
		}
		if next := event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId(); next != "" {
			return next, nil
		}
	}
	return "", serviceerror.NewNotFound("the execution names no successor")
}

// latest describes the latest execution with a run's workflow id, if Temporal no longer
// has the first one. The execution is the run's if it descends from the first one, is
// no reset, and the ledger has no later run with the id. A reset is in the ledger only
// once it has stated something.
func (e *ends) latest(ctx context.Context, r *ledger.Run) (*workflowpb.WorkflowExecutionInfo, error) {
	e.next[r.Chain()] = ""
	described, err := e.describe(ctx, r.Workflow, "")
	info := described.GetWorkflowExecutionInfo()
	if absent(err) || err == nil && (info.GetFirstRunId() != r.Root || described.GetWorkflowExtendedInfo().GetLastResetTime() != nil) {
		return nil, nil
	}
	if err != nil {
		delete(e.next, r.Chain())
		return nil, err
	}
	newest, err := e.runs.Run(ctx, r.Workflow, "")
	if err != nil || newest.Root != r.Root {
		return nil, err
	}
	e.next[r.Chain()] = info.GetExecution().GetRunId()
	return info, nil
}

// absent reports whether Temporal does not have an execution, or cannot have one with
// such an id.
func absent(err error) bool {
	return errors.As(err, new(*serviceerror.NotFound)) || errors.As(err, new(*serviceerror.InvalidArgument))
}

// told reads the result that clients get of an execution that has closed by itself.
func (e *ends) told(ctx context.Context, info *workflowpb.WorkflowExecutionInfo, end *ledger.Run) error {
	ctx, cancel := context.WithTimeout(ctx, endsCall)
	defer cancel()
	id := info.GetExecution()
	var result contract.Result
	err := e.client.GetWorkflow(ctx, id.GetWorkflowId(), id.GetRunId()).Get(ctx, &result)
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		end.State = ledger.RunSucceeded
		switch {
		case err == nil:
		case unanswered(ctx, err):
			return err
		default:
			return nil // nobody can read it
		}
		if v, err := schemas.Decode(json.RawMessage(result)); err == nil {
			if whole, err := plan.Canonical(v); err == nil {
				end.OutputDigest = plan.DigestOf(whole)
			}
		}
		return nil
	}
	if !errors.As(err, new(*temporal.WorkflowExecutionError)) {
		return err
	}
	var application *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	end.State = ledger.RunFailed
	if info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED {
		end.State = ledger.RunCancelled
	}
	failure := unsaid(end.State)
	// Details that are absent or not the engine's leave the failure as it is.
	switch read := failure; {
	case errors.As(err, &application) && application.HasDetails() && application.Details(&read) == nil,
		errors.As(err, &cancelled) && cancelled.HasDetails() && cancelled.Details(&read) == nil:
		failure = read
	}
	raw, err := json.Marshal(failure)
	if err != nil {
		return fmt.Errorf("write the failure: %w", err)
	}
	end.Failure = raw
	return nil
}

// unsaid is the failure of a run that has not stated how it ended.
func unsaid(state ledger.RunState) contract.Failure {
	f := contract.Failure{Kind: contract.FailedKind, Message: "the run ended before it could say how", Compensated: []string{}, NotCompensated: []string{}}
	if state == ledger.RunCancelled {
		f.Kind = contract.Cancelled
	}
	return f
}
