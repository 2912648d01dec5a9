package main

import (
	"context"
	"slices"

	"go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
)

// pinned is the build that a run is pinned to.
type pinned struct {
	Deployment string `json:"deployment"`
	ID         string `json:"id"`
	// Alone: the server knows of no worker of the build that has asked for workflow
	// tasks within the last minutes.
	Alone bool `json:"alone,omitempty"`
}

func (b *pinned) String() string { return host.Deployment{Name: b.Deployment, Build: b.ID}.String() }

// pinned gives the build of a run, or nil where it has none.
func (c *connection) pinned(ctx context.Context, info *workflow.WorkflowExecutionInfo) *pinned {
	build := host.BuildOf(info)
	if build.Name == "" {
		return nil
	}
	b := &pinned{Deployment: build.Name, ID: build.Build}
	if info.GetCloseTime() != nil {
		return b
	}
	builds, err := c.builds(ctx)
	b.Alone = err == nil && !slices.Contains(builds, build)
	return b
}

// builds gives the builds of the workers that have asked for workflow tasks within
// the last minutes, one for each of their polls; the zero value is an unversioned one.
func (c *connection) builds(ctx context.Context) ([]host.Deployment, error) {
	answer, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: c.namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueEngine},
		TaskQueueType: enums.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return nil, err
	}
	var builds []host.Deployment
	for _, poller := range answer.GetPollers() {
		var b host.Deployment
		if o := poller.GetDeploymentOptions(); o.GetWorkerVersioningMode() == enums.WORKER_VERSIONING_MODE_VERSIONED {
			b.Name, b.Build = o.GetDeploymentName(), o.GetBuildId()
		}
		builds = append(builds, b)
	}
	return builds, nil
}

// unplaced gives a build that could be made the current one, where workers are there
// and no build is current, so that no run begins; else the zero value.
func (c *connection) unplaced(ctx context.Context) (host.Deployment, error) {
	builds, err := c.builds(ctx)
	if err != nil || len(builds) == 0 || slices.Contains(builds, host.Deployment{}) {
		return host.Deployment{}, err
	}
	seen := map[string]bool{}
	for _, b := range builds {
		if seen[b.Name] {
			continue
		}
		seen[b.Name] = true
		d, err := c.WorkerDeploymentClient().GetHandle(b.Name).Describe(ctx, client.WorkerDeploymentDescribeOptions{})
		if err != nil {
			return host.Deployment{}, err
		}
		if r := d.Info.RoutingConfig; r.CurrentVersion != nil || r.RampingVersion != nil {
			return host.Deployment{}, nil
		}
	}
	return builds[0], nil
}
