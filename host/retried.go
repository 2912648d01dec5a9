package host

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/metrics"
)

// retried counts the workflow tasks that are not the first of their kind: whatever
// the cause was, the worker, the server and a worker that is gone included, it is
// the next attempt that tells. The library counts those alone that it fails itself.
func retried(to client.MetricsHandler, engine bool) grpc.DialOption {
	count := func(workflow string, n int64) {
		to.WithTags(map[string]string{"workflow_type": workflow}).Counter(metrics.Retried).Inc(n)
	}
	if engine {
		// Who watches a figure rise has to see it from the start.
		count(contract.WorkflowType, 0)
		count(contract.WorkflowCall, 0)
	}
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if task, ok := reply.(*workflowservice.PollWorkflowTaskQueueResponse); ok && err == nil && task.GetAttempt() > 1 {
			count(task.GetWorkflowType().GetName(), 1)
		}
		return err
	})
}
