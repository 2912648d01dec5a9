package client

import (
	"context"
	"slices"

	"go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdk "go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
)

// Build is the build of a worker deployment, in the terms of Temporal's worker
// versioning. The zero value is that of unversioned workers.
type Build struct {
	Deployment string `json:"deployment"`
	ID         string `json:"id"`
	// Alone reports that no worker of the build has polled for workflow tasks within the
	// last minutes.
	Alone bool `json:"alone,omitempty"`
	// Hint says how a run that is alone can go on.
	Hint string `json:"hint,omitempty"`
}

// String formats a build for people.
func (b Build) String() string {
	if b.Deployment == "" {
		return "unversioned"
	}
	return b.Deployment + ":" + b.ID
}

// BuildOf returns the build that a run is pinned to, or the zero value if there is none.
func BuildOf(info *workflow.WorkflowExecutionInfo) Build {
	v := info.GetVersioningInfo()
	at := v.GetDeploymentVersion()
	if override := v.GetVersioningOverride().GetPinned().GetVersion(); override != nil {
		at = override
	}
	return Build{Deployment: at.GetDeploymentName(), ID: at.GetBuildId()}
}

// pinned returns the build that a run is pinned to, or nil.
func (c *Client) pinned(ctx context.Context, info *workflow.WorkflowExecutionInfo) *Build {
	build := BuildOf(info)
	if build == (Build{}) {
		return nil
	}
	if info.GetCloseTime() == nil {
		builds, err := c.builds(ctx)
		if build.Alone = err == nil && !slices.Contains(builds, build); build.Alone {
			build.Hint = c.movesTo(info.GetExecution().GetWorkflowId(), builds)
		}
	}
	return &build
}

// movesTo says how to move a run to one of the builds that have workers.
func (c *Client) movesTo(id string, builds []Build) string {
	if slices.Contains(builds, Build{}) {
		return "temporal workflow update-options --versioning-override-behavior unspecified --workflow-id " + quoted(id) +
			" gives it to the workers that are there, which are of no build."
	}
	return c.options.Command("upgrade", quoted(id)) + " moves it to another build."
}

// Builds returns the builds of the workers that have polled for workflow tasks within
// the last minutes: one for each poller, in no particular order.
func (c *Client) Builds(ctx context.Context) ([]Build, error) {
	builds, err := c.builds(ctx)
	if err != nil {
		return nil, &CallError{"looking for workers", err}
	}
	return builds, nil
}

// builds returns the builds of the workers that have polled for workflow tasks within
// the last minutes, one for each poller; the zero value is an unversioned worker.
func (c *Client) builds(ctx context.Context) ([]Build, error) {
	answer, err := c.temporal.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: c.options.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueEngine},
		TaskQueueType: enums.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return nil, err
	}
	var builds []Build
	for _, poller := range answer.GetPollers() {
		var b Build
		if o := poller.GetDeploymentOptions(); o.GetWorkerVersioningMode() == enums.WORKER_VERSIONING_MODE_VERSIONED {
			b.Deployment, b.ID = o.GetDeploymentName(), o.GetBuildId()
		}
		builds = append(builds, b)
	}
	return builds, nil
}

// unplaced returns a build that could be made the current one if there are workers but
// no build is current, so that no run begins; otherwise it returns the zero value.
func (c *Client) unplaced(ctx context.Context) (Build, error) {
	builds, err := c.builds(ctx)
	if err != nil || len(builds) == 0 || slices.Contains(builds, Build{}) {
		return Build{}, err
	}
	seen := map[string]bool{}
	for _, b := range builds {
		if seen[b.Deployment] {
			continue
		}
		seen[b.Deployment] = true
		d, err := c.temporal.WorkerDeploymentClient().GetHandle(b.Deployment).Describe(ctx, sdk.WorkerDeploymentDescribeOptions{})
		if err != nil {
			return Build{}, err
		}
		if r := d.Info.RoutingConfig; r.CurrentVersion != nil || r.RampingVersion != nil {
			return Build{}, nil
		}
	}
	return builds[0], nil
}

// pollers counts the workers that have recently polled a queue for workflow tasks.
func (c *Client) pollers(ctx context.Context, queue string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := c.temporal.DescribeTaskQueue(ctx, queue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return 0, err
	}
	return len(d.GetPollers()), nil
}
