package main

import (
	"context"

	"go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

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
	answer, err := c.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: c.namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: contract.QueueEngine},
		TaskQueueType: enums.TASK_QUEUE_TYPE_WORKFLOW,
	})
	if err != nil {
		return b
	}
	b.Alone = true
	for _, poller := range answer.GetPollers() {
		if o := poller.GetDeploymentOptions(); o.GetDeploymentName() == build.Name && o.GetBuildId() == build.Build {
			b.Alone = false
		}
	}
	return b
}
