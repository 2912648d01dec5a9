package host

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// resourceHeader is the header in which Temporal's library repeats the workflow id of a
// request, for routing.
const resourceHeader = "temporal-resource-id"

// routable drops that header if it cannot be sent: headers hold only printable ASCII,
// workflow ids more. Otherwise no worker could answer for such a run, and nobody could
// end it.
func routable(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		for _, v := range md.Get(resourceHeader) {
			if !printable(v) {
				md.Delete(resourceHeader) // it is a copy
				ctx = metadata.NewOutgoingContext(ctx, md)
				break
			}
		}
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
