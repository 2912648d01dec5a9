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

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
)

// One heartbeat that does not arrive does not make a worker count as lost, and
// its call is not made again.
func TestALostHeartbeatIsNotALostWorker(t *testing.T) {
	var beats, calls atomic.Int32
	lossy := func(ctx context.Context, method string, request, reply any, c *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/RecordActivityTaskHeartbeat") && beats.Add(1) == 1 {
			return nil
		}
		return invoke(ctx, method, request, reply, c, o...)
	}
	server := stage.Temporal(t)
	enough := make(chan struct{})
	h := stage.Host(t, host.Options{
		Client: client.Options{
			HostPort: server.Address, Namespace: server.Namespace,
			ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(lossy)}},
		},
		Skills: []skills.Skill{skill("long", func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
			calls.Add(1)
			select {
			case <-enough:
				return input, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})},
	})
	run := stage.Start(t, h.Client(), source("", []string{"a test/long 60000"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":"through"}`)
	// The fourth is sent after a silence of ten seconds would have been noticed.
	stage.Until(t, "heartbeats go on", func() bool { return beats.Load() >= 4 || calls.Load() > 1 })
	close(enough)
	var result json.RawMessage
	require.NoError(t, stage.Await(t, h.Client(), run, &result))
	require.JSONEq(t, `{"x":"through"}`, string(result))
	require.EqualValues(t, 1, calls.Load(), "calls of one node whose worker was never lost")
}
