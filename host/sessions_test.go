package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/stage"
)

const countingConfig = `
catalog: catalog.yaml
mcpServers:
  default: {command: sh, args: [count.sh, default]}
  agents: {command: sh, args: [count.sh, agents], sessions: agent}
  runs: {command: sh, args: [count.sh, runs], sessions: run, max_sessions: 2}
  shared: {command: sh, args: [count.sh, shared], sessions: shared}
`

// countScript is an MCP server that counts the calls that its process gets.
const countScript = `n=0
while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
	case "$line" in
	*'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"count","version":"1"}}' ;;
	*'"tools/call"'*) n=$((n+1)); echo "$1 $n" >> calls; answer '{"content":[],"structuredContent":{}}' ;;
	esac
done
`

// TestSessions: whose calls a server may connect is as the configuration says.
func TestSessions(t *testing.T) {
	t.Parallel()
	p := &place{dir: t.TempDir()}
	names := []string{"default", "agents", "runs", "shared"}
	var catalog strings.Builder
	catalog.WriteString("apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n")
	var nodes []string
	for _, name := range names {
		catalog.WriteString("  - {provider_type: mcp, provider_name: " + name + ", operation: count, mode: deter, effect_class: pure, input_schema: {type: object}, output_schema: {type: object}, " +
			"timeout_ms: 60000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto}\n")
		nodes = append(nodes, name+"/count", name+"/count")
	}
	for name, text := range map[string]string{"chimera.yaml": countingConfig, "count.sh": countScript, "catalog.yaml": catalog.String(), "calls": ""} {
		p.write(t, name, text)
	}
	p.load(t)
	h := stage.Rehearse(t, p.options)
	c := h.Client()
	// counts are those of the calls since it was asked last.
	counts := func() map[string]string {
		file := filepath.Join(p.dir, "calls")
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(file, 0))
		all := map[string]string{}
		for line := range strings.Lines(string(raw)) {
			name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
			all[name] += n
		}
		return all
	}
	plan := placedPlan(nodes...)
	first := stage.Start(t, c, plan, `{}`)
	require.NoError(t, stage.Await(t, c, first, nil))
	require.Equal(t, map[string]string{"default": "12", "agents": "12", "runs": "12", "shared": "12"}, counts())
	require.NoError(t, stage.Await(t, c, stage.Start(t, c, plan, `{}`), nil))
	require.Equal(t, map[string]string{"default": "34", "agents": "34", "runs": "12", "shared": "34"}, counts())

	// What a run does after a reset belongs to it.
	require.NoError(t, stage.Await(t, c, stage.Reset(t, c, first), nil))
	require.Equal(t, map[string]string{"default": "56", "agents": "56", "runs": "34", "shared": "56"}, counts())

	// Another agent, for whose run the oldest session by run ends.
	require.NoError(t, stage.Await(t, c, stage.Start(t, c, strings.Replace(plan, "agent: tester", "agent: another", 1), `{}`), nil))
	require.Equal(t, map[string]string{"default": "12", "agents": "12", "runs": "12", "shared": "78"}, counts())
}
