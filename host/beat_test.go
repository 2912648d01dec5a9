package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
)

// A server that refuses heartbeats cancels nothing: the library ends the call, and
// the node runs again, as after a lost worker.
func TestAHeartbeatThatFailsCancelsNoRun(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	var calls atomic.Int32
	broken := func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/RecordActivityTaskHeartbeat") {
			return status.Error(codes.DeadlineExceeded, "the server is busy")
		}
		return invoke(ctx, method, request, reply, c, o...)
	}
	server := stage.Temporal(t)
	h := stage.Host(t, host.Options{
		Client: client.Options{
			HostPort: server.Address, Namespace: server.Namespace,
			ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(broken)}},
		},
		Skills: []skills.Skill{skill("long", func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
			if calls.Add(1) > 1 {
				return input, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})},
	})
	run := stage.Start(t, h.Client(), source("", []string{"a test/long 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":"through"}`)
	var result json.RawMessage
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.JSONEq(t, `{"x":"through"}`, string(result))
	require.EqualValues(t, 2, calls.Load())
}
