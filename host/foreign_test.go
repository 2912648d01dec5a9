package host_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/review"
	"chimera.ai/engine/trust"
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

// TestForeignSigners: two people approve an effect with the program that docs/approvals.md
// shows, as it stands there: one by update, one by signal. It needs no keys of payloads.
func TestForeignSigners(t *testing.T) {
	program := documented(t, "ts")
	for name, s := range map[string]payload.Sealing{"plain": {}, "sealed": sealing(t, keys(t, "k1")...)} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			a := act(t, writes)
			if s.Keys == nil {
				a.develops(t, "in production payloads are sealed")
			} else if a.of == nil {
				a.options.Sealing = s
				a.again(t)
			}
			f := foreigners{acting: a, dir: t.TempDir()}
			eve, fay := f.enrol(t, "eve", "editor"), f.enrol(t, "fay", "finance")
			run := a.start(t, "foreign", a.publish(t, approvedPlan), `{"line":"one"}`)
			f.prepare(t, program, run.GetID(), a.asked(t, run, 1)[0])

			forged, err := f.sign(t, run.GetID(), eve.ID, "editor", fay.ID)
			require.Error(t, err)
			require.Contains(t, forged, "code: 'forged'")
			refused, err := f.sign(t, run.GetID(), eve.ID, "finance", eve.ID)
			require.Error(t, err)
			require.Contains(t, refused, "code: 'ineligible'")
			accepted, err := f.sign(t, run.GetID(), eve.ID, "editor", eve.ID)
			require.NoError(t, err, accepted)
			require.Contains(t, accepted, "accepted: true")
			require.Contains(t, accepted, "missing: [ { role: 'finance', min: 1 } ]")
			require.Empty(t, a.written(t))
			said, err := f.sign(t, run.GetID(), fay.ID, "finance", fay.ID, "signal")
			require.NoError(t, err, said)
			require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
			require.Equal(t, []string{`{"line":"one"}`}, a.written(t))
			a.replays(t, run)
		})
	}
}

// documented returns the first block of docs/approvals.md in a language.
func documented(t *testing.T, language string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "approvals.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "\n```"+language+"\n")
	require.True(t, found, language)
	text, _, found := strings.Cut(rest, "\n```\n")
	require.True(t, found, language)
	return text
}

// foreigners are people who sign with a program of their own, in a folder with their keys.
type foreigners struct {
	*acting
	dir string
}

// enrol is as [acting.enrol], and writes the key to a file of the signer's id.
func (f *foreigners) enrol(t *testing.T, person, role string) stage.Signer {
	t.Helper()
	s := f.acting.enrol(t, person, role)
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, s.ID), s.Secret, 0o600))
	return s
}

// prepare writes the program, and a chimera that shows what is asked: the real one has the
// root of trust of production only, or its own.
func (f *foreigners) prepare(t *testing.T, program, run string, b ledger.Barrier) {
	t.Helper()
	books := f.ledger()
	s, err := trust.Read(t.Context(), books, f.Root)
	require.NoError(t, err)
	r := &review.Reader{Ledger: books, Blobs: f.h.Store().Blobs, State: s, Namespace: stage.Temporal(t).Namespace}
	o, err := r.Find(t.Context(), b.ID)
	require.NoError(t, err)
	text, err := r.Text(t.Context(), &o)
	require.NoError(t, err)
	shown, err := json.Marshal(map[string]any{
		"run": run, "expires": o.Request.Expires, "text": text, "payload": o.Request.Payload(o.Digest, approval.Approve),
	})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, "shown.json"), shown, 0o600))
	script := "#!/bin/sh\ntest \"$*\" = \"approvals show " + run + " --format json\" && exec cat shown.json\n"
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, "chimera"), []byte(script), 0o700))
	require.Contains(t, program, "'localhost:7233'")
	program = strings.Replace(program, "localhost:7233", stage.Temporal(t).Address, 1)
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, "sign.mjs"), []byte(program), 0o600))
	require.NoError(t, os.Symlink(filepath.Join(npm.Dir(t), "node_modules"), filepath.Join(f.dir, "node_modules")))
}

// sign runs the program, and returns what it prints.
func (f *foreigners) sign(t *testing.T, operands ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"sign.mjs"}, operands...)...)
	cmd.Dir, cmd.Env = f.dir, append(os.Environ(), "PATH="+f.dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
