//go:build unix

package mcp

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that says that its tools have changed is counted, and logged once in a session. Its session goes on.
func TestListChanged(t *testing.T) {
	var times atomic.Int64
	var mu sync.Mutex
	var log bytes.Buffer
	p := hostilePool(t, "ok", func(o *Options) {
		o.Changed = func(server string) {
			assert.Equal(t, "h", server)
			times.Add(1)
		}
		o.Logger = slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(b)
		}), nil))
	})
	pid := pidOf(t, p)
	require.Equal(t, "done", textOf(t, p, "changed:3"))
	require.EqualValues(t, 3, times.Load())
	require.Equal(t, pid, pidOf(t, p))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 1, strings.Count(log.String(), "its tools have changed"))
}
