//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
)

// A call ends with its context while others decode large answers. It was sent.
func TestTurnEnds(t *testing.T) {
	for range maxHeavy {
		heavyTurns <- struct{}{}
	}
	t.Cleanup(func() {
		for range maxHeavy {
			<-heavyTurns
		}
	})
	much := strings.Repeat("x", heavy+1)
	long := func(before, after string) json.RawMessage { return json.RawMessage(before + much + after) }
	for name, c := range map[string]struct {
		mode string
		do   func(ctx context.Context, p *Pool) error
	}{
		"result": {"ok", func(ctx context.Context, p *Pool) error {
			_, err := p.Call(ctx, "h", "echo", long(`{"a":"`, `"}`))
			return err
		}},
		"error": {"ok", func(ctx context.Context, p *Pool) error {
			_, err := p.Call(ctx, "h", "raw", long(`{"error":{"code":-32603,"message":"`, `"}}`))
			return err
		}},
		"page": {"mutable", func(ctx context.Context, p *Pool) error {
			become(t, p, string(long(`{"tools":[{"name":"`, `"}]}`)), "")
			_, err := p.Tools(ctx, "h")
			return err
		}},
		"resource": {"ok", func(ctx context.Context, p *Pool) error {
			_, err := p.Read(ctx, "h", "long:1048577", Pin{})
			return err
		}},
		"response": {"site", func(ctx context.Context, p *Pool) error {
			_, err := p.Call(ctx, "h", "echo", long(`{"a":"`, `"}`))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var p *Pool
			if c.mode == "site" {
				p = newSite(t).pool(t)
			} else {
				p = hostilePool(t, c.mode)
			}
			require.NotEmpty(t, textOf(t, p, "count"))
			requireKind(t, contract.Timeout, late(t, awaitsTurn, func(ctx context.Context) error { return c.do(ctx, p) }))
		})
	}
}

// awaitsTurn reports whether a goroutine waits until it may decode an answer.
func awaitsTurn() bool {
	stacks := make([]byte, 1<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(").heavyTurn("))
}

// An answer that has come is not thrown away because its call has ended, if it can be decoded at once.
func TestTurnIsFree(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &conn{name: "h"}
	for range 100 {
		done, bad := c.heavyTurn(ctx, make([]byte, heavy+1))
		require.Nil(t, bad)
		done()
	}
}
