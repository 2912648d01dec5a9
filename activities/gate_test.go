package activities

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGate: small sources are compiled side by side, and a large one by itself.
func TestGate(t *testing.T) {
	var g gate
	large := strings.Repeat("x", 3*maxCompiling)
	one, err := g.enter(t.Context(), "a")
	require.NoError(t, err)
	two, err := g.enter(t.Context(), "b")
	require.NoError(t, err)

	ended, end := context.WithCancel(t.Context())
	end()
	_, err = g.enter(ended, large)
	require.ErrorIs(t, err, context.Canceled)

	entered := make(chan func())
	go func() {
		leave, err := g.enter(context.Background(), large)
		if err != nil {
			leave = nil
		}
		entered <- leave
	}()
	one()
	two()
	leave := <-entered
	require.NotNil(t, leave)
	_, err = g.enter(ended, "c")
	require.ErrorIs(t, err, context.Canceled)
	leave()
	leave, err = g.enter(t.Context(), "c")
	require.NoError(t, err)
	leave()
}
