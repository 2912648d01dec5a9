package host

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/metrics"
)

// retried counts workflow tasks that are retries, whatever made the attempt before
// fail: the worker, the server, or the loss of a worker. The SDK only counts those
// that it fails itself.
func retried(to client.MetricsHandler, engine bool) grpc.DialOption {
	count := func(workflow string, n int64) {
		to.WithTags(map[string]string{"workflow_type": workflow}).Counter(metrics.Retried).Inc(n)
	}
	if engine {
		// A monitor that watches for an increase has to see the figure from the start.
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
