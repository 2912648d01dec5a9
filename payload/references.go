package payload

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// References lets every client read how a run ended. The SDK writes a reference
// that clients without its external storage refuse; in the history of a run whose
// result is over [InlineLimit] stands a [contract.Reference] instead, which is
// JSON like any result. A client of the engine's own gets the SDK's reference
// back, and with it the value; of what a workflow came to it reads one reference, since
// whoever can end one could name a large value as often as a message has room for. Its
// keys vouch for that, so that it hears of a value which is not in the store.
func References(keys *Keyring) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if completed, ok := req.(*workflowservice.RespondWorkflowTaskCompletedRequest); ok {
			for _, c := range completed.GetCommands() {
				readable(c)
			}
		}
		err := invoke(ctx, method, req, reply, cc, opts...)
		if answer, ok := reply.(*workflowservice.GetWorkflowExecutionHistoryResponse); ok && err == nil {
			return ended(ctx, answer.GetHistory(), keys)
		}
		return err
	}
}
