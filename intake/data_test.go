package intake_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/intake"
)

// public are the definitions of the public collection, or a few of our own where that is not at hand: then
// whole is false.
func public(t testing.TB) (all []intake.Tool, whole bool) {
	t.Helper()
	raw, err := os.ReadFile("../../shared/data/mcp-tools.json")
	if errors.Is(err, os.ErrNotExist) {
		raw, err = os.ReadFile("../../../shared/data/mcp-tools.json") // from a worktree
	}
	if whole = !errors.Is(err, os.ErrNotExist); !whole {
		raw, err = os.ReadFile("../containment/testdata/tools.json")
	}
	require.NoError(t, err)
	var definitions []json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &definitions))
	for _, d := range definitions {
		tool := intake.Tool{Definition: d}
		require.NoError(t, json.Unmarshal(d, &tool))
		tool.Definition = d
		all = append(all, tool)
	}
	require.NotEmpty(t, all)
	if whole {
		require.Len(t, all, 439)
	}
	return all, whole
}

// rest skips what is left of a test if it is about the public collection, which is not at hand.
func rest(t testing.TB, whole bool) {
	t.Helper()
	if !whole {
		t.Skip("the rest is about the public definitions, and ../../shared/data/mcp-tools.json is not there")
	}
}

// named is a definition of a name with further members.
func named(name, more string) json.RawMessage {
	raw, _ := json.Marshal(name)
	if more != "" {
		more = "," + more
	}
	return json.RawMessage(`{"name":` + string(raw) + `,"inputSchema":{"type":"object"}` + more + `}`)
}
