package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

// TestPollingIsInterrupted: Ctrl-C while the worker starts is not reported as its
// fault.
func TestPollingIsInterrupted(t *testing.T) {
	c, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1"})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.EqualError(t, polling(ctx, c), "interrupted")
}
