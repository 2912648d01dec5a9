package client

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
)

// Listed is a run in a list.
type Listed struct {
	Run   string            `json:"run"`
	RunID string            `json:"run_id"`
	Plan  string            `json:"plan"`
	State contract.RunState `json:"state"`
	// StartTime is when the run's first execution started.
	StartTime time.Time  `json:"start_time"`
	CloseTime *time.Time `json:"close_time,omitempty"`
}

// List lists the latest runs, at most limit. A continued run is listed once, as its last
// execution. The list is eventually consistent.
func (c *Client) List(ctx context.Context, limit int) ([]Listed, error) {
	runs, err := c.list(ctx, limit)
	if err != nil {
		return nil, &CallError{"listing runs", err}
	}
	if err := c.fromTheStart(ctx, runs); err != nil {
		return nil, &CallError{"looking for the first executions", err}
	}
	return runs, nil
}

func (c *Client) list(ctx context.Context, limit int) ([]Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	runs := []Listed{}
	var page []byte
	for {
		answer, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace:     c.options.Namespace,
			PageSize:      int32(min(limit, 1000)),
			NextPageToken: page,
			Query:         fmt.Sprintf(`WorkflowType = '%s' AND ExecutionStatus != 'ContinuedAsNew'`, contract.WorkflowType),
		})
		if err != nil {
			return nil, err
		}
		for _, info := range answer.GetExecutions() {
			if len(runs) == limit {
				return runs, nil
			}
			runs = append(runs, listed(info))
		}
		if page = answer.GetNextPageToken(); len(page) == 0 {
			return runs, nil
		}
	}
}

func listed(info *workflow.WorkflowExecutionInfo) Listed {
	r := Listed{
		Run: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(),
		Plan: attribute(info, contract.AttributePlan), State: stateOf(info), StartTime: info.GetStartTime().AsTime(),
	}
	if t := info.GetCloseTime(); t != nil {
		closed := t.AsTime()
		r.CloseTime = &closed
	} else if state := attribute(info, contract.AttributeState); state != "" {
		r.State = contract.RunState(state)
	}
	return r
}

// attribute returns a search attribute of a run, or "".
func attribute(info *workflow.WorkflowExecutionInfo, name string) string {
	var text string
	if payload := info.GetSearchAttributes().GetIndexedFields()[name]; payload != nil {
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &text); err != nil {
			return ""
		}
	}
	return text
}
