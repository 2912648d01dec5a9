package ledgertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// toolsAtOnce: tools are stored, found and changed together, all or none.
func toolsAtOnce(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	var tools []ledger.Tool
	var ids []string
	for i := range ledger.MaxTools {
		id := fmt.Sprintf("files/tool-%03d", i)
		tools = append(tools, ledger.Tool{ToolID: id, Name: id, Schema: json.RawMessage(`{"a":1}`), Fingerprint: digest(id), Status: "block"})
		ids = append(ids, id)
	}
	entries := func() int {
		t.Helper()
		chain, err := s.Chain(ctx, ledger.ToolsChain, 0, everything.Limit)
		require.NoError(t, err)
		return len(chain)
	}
	status := func(want map[string]int) {
		t.Helper()
		found, err := s.Tools(ctx, ids...)
		require.NoError(t, err)
		have := map[string]int{}
		for _, v := range found {
			have[v.Status]++
		}
		require.Equal(t, want, have)
	}
	require.NoError(t, s.RegisterTool(ctx))
	require.NoError(t, s.TrustTools(ctx, "block"))
	require.NoError(t, s.RegisterTool(ctx, tools[:100]...))
	require.NoError(t, s.RegisterTool(ctx, tools...), "some are there")
	require.NoError(t, s.RegisterTool(ctx, tools[0], tools[0]))
	require.Equal(t, len(tools), entries())
	status(map[string]int{"block": len(tools)})

	found, err := s.Tools(ctx, "nowhere", ids[7], ids[3], "\x00", ids[7])
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, ids[3], found[0].ToolID)
	one, err := s.Tool(ctx, ids[7])
	require.NoError(t, err)
	require.Equal(t, one, found[1])
	found, err = s.Tools(ctx)
	require.NoError(t, err)
	require.Empty(t, found)

	require.NoError(t, s.TrustTools(ctx, "allow_auto", ids[:10]...))
	require.NoError(t, s.TrustTools(ctx, "allow_auto", append(slices.Clone(ids[:20]), ids[:20]...)...))
	status(map[string]int{"allow_auto": 20, "block": len(tools) - 20})
	require.Equal(t, len(tools)+20, entries(), "what is so already is not stated")

	other := tools[5]
	other.Schema = json.RawMessage(`{"a":2}`)
	fresh := ledger.Tool{ToolID: "files/fresh", Schema: json.RawMessage(`{}`), Status: "block"}
	require.ErrorIs(t, s.RegisterTool(ctx, fresh, other), ledger.ErrConflict)
	require.ErrorIs(t, s.RegisterTool(ctx, append(slices.Clone(tools), fresh)...), ledger.ErrInvalid)
	_, err = s.Tool(ctx, fresh.ToolID)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	require.ErrorIs(t, s.TrustTools(ctx, "manual_review", ids[0], "nowhere"), ledger.ErrNotFound)
	require.ErrorIs(t, s.TrustTools(ctx, "manual_review", append(slices.Clone(ids), "x")...), ledger.ErrInvalid)
	_, err = s.Tools(ctx, append(slices.Clone(ids), "x")...)
	require.ErrorIs(t, err, ledger.ErrInvalid)
	status(map[string]int{"allow_auto": 20, "block": len(tools) - 20})
	Drain(t, s, Key(t))
	Same(t, s, Replay(t, s))
}
