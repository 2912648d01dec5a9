//go:build unix

package mcp

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// One call on a running server, there and back.
func BenchmarkCall(b *testing.B) {
	s := Server{Command: os.Args[0], Env: map[string]string{hostileVar: "ok"}}
	p := NewPool(map[string]Server{"h": s}, quiet)
	defer p.Close()
	args := json.RawMessage(`{"i":1}`)
	for b.Loop() {
		_, err := p.Call(b.Context(), "h", "echo", args)
		require.NoError(b, err)
	}
}
