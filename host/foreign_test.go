package host_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
)

// TestAForeignClient runs a program in another language that uses Temporal's
// own client for it, against the contract that the documents promise. It has no
// keys, and needs none where payloads are sealed.
func TestAForeignClient(t *testing.T) {
	modules := filepath.Join(npm.Dir(t), "node_modules")
	for name, s := range map[string]payload.Sealing{"plain": {}, "sealed": sealing(t, keys(t, "k1")...)} {
		t.Run(name, func(t *testing.T) { foreign(t, modules, s) })
	}
}

func foreign(t *testing.T, modules string, s payload.Sealing) {
	h := stage.Host(t, host.Options{Sealing: s})
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	// A result above the size from which values leave the history: a client
	// without the engine's store reads it all the same.
	big := strings.Repeat("long ", 10_000)
	text := ` input_schema: {type: object, required: [x], properties: {x: {type: string}}}, output_schema: {type: object, required: [x], properties: {x: {type: string}}}`
	require.NoError(t, os.WriteFile(good, []byte(given(source("", []string{"a engine/pass 500" + text, "b engine/pass 3000" + text}, []string{
		"$input.x -> a.x", "a.x -> b.x", "b.x -> $output.x",
		`{from_node: b, from_port: x, to_node: $output, to_port: big, edge_type: data, required: true, transform: "` + "${value} " + big + `"}`,
	}), "{type: string}")), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte(source("", []string{"a engine/pass 500"}, []string{"a.x -> nowhere.x"})), 0o600))

	ref := published(t, h, source("", []string{"a engine/pass 500"}, []string{"$input.x -> a.x", "a.x -> $output.x"}))
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join("testdata", "client.cjs"), stage.Temporal(t).Address, good, bad, ref)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)

	var seen struct {
		Result    struct{ X, Big string }
		Published struct{ X string }
		Huge      contract.Reference
		HugeID    string
		State     contract.State
		Failure   struct {
			Type    contract.Kind
			Message string
			Details []contract.Failure
		}
	}
	require.NoError(t, json.Unmarshal(out, &seen))
	require.Equal(t, "from afar", seen.Result.X)
	require.Equal(t, "from afar "+big, seen.Result.Big)
	require.Equal(t, "published", seen.Published.X)
	// Above the size up to which a history has results, there is a reference.
	require.Regexp(t, "^sha256:[0-9a-f]{64}$", seen.Huge.Ref.Digest)
	require.Greater(t, seen.Huge.Ref.Bytes, int64(payload.InlineLimit))
	require.Contains(t, seen.Huge.Ref.How, "chimera status")
	_, err = h.Store().Blobs.Get(t.Context(), seen.Huge.Ref.Digest)
	require.NoError(t, err)
	var whole struct{ X string }
	require.NoError(t, h.Client().GetWorkflow(t.Context(), seen.HugeID, "").Get(t.Context(), &whole), "our own client reads it whole")
	require.Equal(t, strings.Repeat("much ", 100_000), whole.X)
	require.Equal(t, contract.RunSucceeded, seen.State.State)
	require.Equal(t, 2, seen.State.Counts.Succeeded)
	require.Equal(t, contract.Contract, seen.Failure.Type)
	require.Contains(t, seen.Failure.Message, "nowhere")
	require.Len(t, seen.Failure.Details, 1)
	require.Contains(t, string(seen.Failure.Details[0].Diagnostics), "plan/unknown-node")
}
