package host_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/skills"
)

// gossip repeats what it is told, in each way in which a call fails.
const gossip = `
told=$(cat)
case "$1" in
fail) echo "$told" >&2; exit 1 ;;
tell) printf '{"error":{"message":"no access for erika","details":%s}}' "$told"; exit 1 ;;
odd) printf 'no JSON, erika' ;;
other) printf '{"y":"erika"}' ;;
esac
`

// TestTheLogDoesNotTell: a worker's log names the run, the node and the kind of a failure, and has
// nothing that a tool has said, and no value of a run.
func TestTheLogDoesNotTell(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	dir := t.TempDir()
	var operations strings.Builder
	for _, name := range []string{"fail", "tell", "odd", "other"} {
		operations.WriteString("  - {provider_type: skill, provider_name: gossip, operation: " + name + `, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object}, output_schema: {type: object, required: [x]}, trust_requirement: allow_auto, status: allow_auto}` + "\n")
	}
	for name, text := range map[string]string{
		"chimera.yaml": "catalog: catalog.yaml\nskills:\n  gossip: {command: sh, args: [gossip.sh]}\n", "gossip.sh": gossip,
		"catalog.yaml": "apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n" + operations.String(),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	settings, ds := config.Load(filepath.Join(dir, "chimera.yaml"))
	require.Empty(t, ds)
	resolved, err := settings.Resolve()
	require.NoError(t, err)
	options, ds, err := host.Settings(resolved)
	require.NoError(t, err)
	require.False(t, ds.HasErrors(), ds)
	var log buffer
	options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	options.Store.Dir, options.Store.Path = t.TempDir(), ""
	options.Skills = []skills.Skill{
		skill("panics", func(context.Context, json.RawMessage) (json.RawMessage, error) { panic("erika") }),
		skill("fails", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return nil, contract.Errorf(contract.Auth, "no access for %s", "erika")
		}),
	}
	h := stage.Host(t, options)
	for node, kind := range map[string]contract.Kind{
		"gossip/fail 60000": contract.ToolError, "gossip/tell 60000": contract.ToolError, "gossip/odd 60000": contract.InvalidOutput, "gossip/other 60000": contract.InvalidOutput,
		"test/fails 60000": contract.Auth, "test/panics 60000": contract.ToolError,
	} {
		id := "about a person, by " + node
		_, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine}, contract.WorkflowType,
			contract.Start{Source: source("", []string{"talks " + node}, []string{"$input.x -> talks.x", "talks.x -> $output.x"}), Input: json.RawMessage(`{"x":"erika"}`), Subject: "person-17"})
		require.NoError(t, err)
		run := h.Client().GetWorkflow(t.Context(), id, "")
		f := stage.FailureOf(t, stage.Await(t, h.Client(), run, nil))
		require.Equal(t, kind, f.Kind, "%s: %s", node, f.Message)
		said := log.String()
		require.NotContains(t, said, "erika", node)
		require.NotContains(t, said, "person-17", node)
		require.Contains(t, said, id)
		require.Regexp(t, `Activity error.*`+string(kind)+`, request [^ ]*talks#1`, said, node)
	}
}
