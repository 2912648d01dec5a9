package host

import (
	"context"
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

// childWorkflows asks Temporal about child workflows.
type childWorkflows struct{ client client.Client }

// Child implements activities.Children.
func (c childWorkflows) Child(ctx context.Context, child contract.Child, ended bool) (bool, *contract.Report, error) {
	described, err := c.client.DescribeWorkflowExecution(ctx, child.Workflow, child.Run)
	if errors.As(err, new(*serviceerror.NotFound)) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	switch described.GetWorkflowExecutionInfo().GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED:
		if !ended {
			return true, nil, nil
		}
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
	default:
		return false, nil, nil
	}
	var report contract.Report
	err = c.client.GetWorkflow(ctx, child.Workflow, child.Run).Get(ctx, &report)
	switch {
	case err == nil:
		return false, &report, nil
	case unanswered(ctx, err):
		return false, nil, err
	}
	// It has failed, or returned something that no worker of this deployment returns.
	return false, nil, nil
}

// unanswered reports whether err, from asking how an execution ended, says nothing
// about its result, which may be read later.
func unanswered(ctx context.Context, err error) bool {
	var elsewhere serviceerror.ServiceError
	var known *contract.Error
	return ctx.Err() != nil || errors.As(err, &elsewhere) || errors.As(err, &known) && known.Kind == contract.StoreUnavailable
}
