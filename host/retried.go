package host

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/metrics"
)

// retried counts retried workflow tasks. A later attempt shows every kind of failure,
// also those of the server or of a lost worker; the library counts only tasks that it
// fails itself.
func retried(to client.MetricsHandler, engine bool) grpc.DialOption {
	count := func(workflow string, n int64) {
		to.WithTags(map[string]string{"workflow_type": workflow}).Counter(metrics.Retried).Inc(n)
	}
	if engine {
		// A counter must exist from the start for its increase to be seen.
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
