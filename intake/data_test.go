package intake_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/intake"
)

// public are the definitions of the public collection, or none where it is not.
func public(t testing.TB) (all []intake.Tool) {
	t.Helper()
	raw, err := os.ReadFile("../../shared/data/mcp-tools.json")
	if errors.Is(err, os.ErrNotExist) {
		raw, err = os.ReadFile("../../../shared/data/mcp-tools.json") // from a worktree
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil
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
	require.Len(t, all, 439)
	return all
}

// named is a definition of a name with further members.
func named(name, more string) json.RawMessage {
	raw, _ := json.Marshal(name)
	if more != "" {
		more = "," + more
	}
	return json.RawMessage(`{"name":` + string(raw) + `,"inputSchema":{"type":"object"}` + more + `}`)
}
