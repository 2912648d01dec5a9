package host

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/contract"
)

// A worker that Temporal refuses for minutes stops polling by itself. Its host
// reports that once, to whoever runs it and to its supervisor.
func TestRunEndsWithItsWorkers(t *testing.T) {
	h := &Host{refused: make(chan error, 1)}
	o := h.bounded(contract.QueueEngine, worker.Options{})
	gone := errors.New("the namespace is gone")
	o.OnFatalError(gone)
	o.OnFatalError(errors.New("and so for the next one")) // nobody waits for it
	err := h.Run(t.Context())
	require.ErrorIs(t, err, gone)
	require.ErrorContains(t, err, "the worker of the queue chimera has stopped")
	require.NoError(t, h.Close())
}
