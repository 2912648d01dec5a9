package live

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
)

// TestTaskOnly: what a server runs only as a task cannot be called, whether the catalog has it or not.
func TestTaskOnly(t *testing.T) {
	for support, only := range map[string]bool{
		`{"taskSupport":"required"}`: true, `{"taskSupport":"optional"}`: false, `{"taskSupport":"forbidden"}`: false, `{"tasksupport":"required"}`: false, `{}`: false, `null`: false,
	} {
		definition := json.RawMessage(`{"name":"grow","inputSchema":{"type":"object"},"execution":` + support + `}`)
		print, err := fingerprint.Tool(definition)
		require.NoError(t, err)
		servers := map[string]Server{"trees": {Tools: []mcp.Tool{{Name: "grow", Raw: definition}}}}
		have := catalog.Template{ProviderType: plan.MCP, Provider: "trees", Operation: "grow", Effect: plan.Pure, Fingerprint: print.Digest}
		drifted := have
		drifted.Fingerprint = "sha256:00"
		problem, state := "", Pinned
		if only {
			problem, state = catalog.NoTasks, Task
		}
		require.Equal(t, []Offer{{"trees", "grow", "", print.Digest, Unknown, problem, false}}, Compare(nil, servers), support)
		got := Compare([]catalog.Template{have}, servers)
		require.Equal(t, []Offer{{"trees", "grow", "", print.Digest, state, problem, false}}, got, support)
		require.Equal(t, only, got[0].Stale(), support)
		require.Equal(t, Drift, Compare([]catalog.Template{drifted}, servers)[0].State, support)
	}
}
