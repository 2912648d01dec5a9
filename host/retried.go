package host

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"

	"chimera.ai/engine/metrics"
)

// retried counts the workflow tasks that are not the first of their kind: whatever
// the cause was, the worker, the server and a worker that is gone included, it is
// the next attempt that tells. The library counts those alone that it fails itself.
func retried(to client.MetricsHandler) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if task, ok := reply.(*workflowservice.PollWorkflowTaskQueueResponse); ok && err == nil && task.GetAttempt() > 1 {
			to.WithTags(map[string]string{"workflow_type": task.GetWorkflowType().GetName()}).Counter(metrics.Retried).Inc(1)
		}
		return err
	})
}
