package docs

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/devserver"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

func TestMain(m *testing.M) { stage.Main(m) }

// TestForeignClient runs the client that docs/start-from-any-language.md shows,
// with the first plan of docs/write-a-plan.md, as it stands there: once as it
// is, and once with a mistake in the plan.
func TestForeignClient(t *testing.T) {
	client := first(t, "docs/start-from-any-language.md", "ts")
	plan := first(t, "docs/write-a-plan.md", "yaml plan")
	h := stage.Host(t, host.Options{})
	run := func(id, plan string, code int) (stdout, stderr string) {
		dir := t.TempDir()
		require.NoError(t, os.Symlink(filepath.Join(npm.Dir(t), "node_modules"), filepath.Join(dir, "node_modules")))
		program := strings.NewReplacer("localhost:7233", stage.Temporal(t).Address, "greet-ada", id).Replace(client)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "client.mjs"), []byte(program), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "greet.yaml"), []byte(plan), 0o600))
		cmd := exec.CommandContext(t.Context(), "node", "client.mjs")
		cmd.Dir = dir
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if code == 0 {
			require.NoError(t, err, "%s%s", out, errs.String())
		}
		require.Equal(t, code, cmd.ProcessState.ExitCode())
		return string(out), errs.String()
	}

	out, errs := run("docs-good", plan, 0)
	require.Contains(t, out, "{ greeting: 'Hello, Ada!' }")
	require.Empty(t, errs)

	_, errs = run("docs-bad", strings.Replace(plan, "greet.greeting}", "greet.greetings}", 1), 1)
	require.Contains(t, errs, "contract")
	require.Contains(t, errs, "plan/unknown-port")
	value, err := h.Client().QueryWorkflow(t.Context(), "docs-bad", "", contract.QueryState)
	require.NoError(t, err)
	var state contract.State
	require.NoError(t, value.Get(&state))
	require.Equal(t, contract.RunFailed, state.State)
	require.NotEmpty(t, state.Failure.Diagnostics)
}

// TestGoClient runs the clients in Go that the page shows, without and with package
// client: with the first plan of docs/write-a-plan.md, and with a mistake in it.
func TestGoClient(t *testing.T) {
	good := first(t, tutorial, "yaml plan")
	stage.Host(t, host.Options{})
	for _, info := range []string{"go", "go client"} {
		t.Run(info, func(t *testing.T) {
			text := first(t, "docs/start-from-any-language.md", info)
			require.Contains(t, text, `"greet-ada"`)
			dir := t.TempDir()
			program := filepath.Join(dir, "greet")
			buildGo(t, strings.NewReplacer("localhost:7233", stage.Temporal(t).Address, `"greet-ada"`, "os.Args[1]").Replace(text), program)
			run := func(id, plan string) (string, error) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "greet.yaml"), []byte(plan), 0o600))
				cmd := exec.CommandContext(t.Context(), program, id)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			out, err := run("docs-go-"+rand.Text(), good)
			require.NoError(t, err, out)
			require.Contains(t, out, `{"greeting":"Hello, Ada!"}`)
			out, err = run("docs-go-"+rand.Text(), strings.Replace(good, "greet.greeting}", "greet.greetings}", 1))
			require.Error(t, err)
			require.Contains(t, out, "contract ")
			require.Contains(t, out, "plan/unknown-port")
		})
	}
}

// TestSchedule runs the commands of the page that make a Temporal Schedule and
// trigger it, and waits for the run.
func TestSchedule(t *testing.T) {
	h := stage.Host(t, host.Options{})
	temporal, err := devserver.Find(t.Context(), os.Stderr)
	require.NoError(t, err)
	dir := t.TempDir()
	argument, err := json.Marshal(contract.Start{Source: first(t, tutorial, "yaml plan"), Input: json.RawMessage(`{"name":"Ada"}`)})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "start.json"), argument, 0o600))
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", first(t, "docs/start-from-any-language.md", "sh schedule"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+stage.Temporal(t).Address,
		"PATH="+filepath.Dir(temporal)+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	schedule := h.Client().ScheduleClient().GetHandle(t.Context(), "greet-daily")
	t.Cleanup(func() { require.NoError(t, schedule.Delete(context.WithoutCancel(t.Context()))) })
	var id string
	stage.Until(t, "the schedule has started a run", func() bool {
		d, err := schedule.Describe(t.Context())
		if err != nil || len(d.Info.RecentActions) == 0 {
			return false
		}
		id = d.Info.RecentActions[0].StartWorkflowResult.WorkflowID
		return true
	})
	require.True(t, strings.HasPrefix(id, "greet-daily-"), id)
	var result json.RawMessage
	require.NoError(t, stage.Await(t, h.Client(), h.Client().GetWorkflow(t.Context(), id, ""), &result))
	require.JSONEq(t, `{"greeting":"Hello, Ada!"}`, string(result))
}

// TestForeignGrant runs the recipe for start grants as it stands there, against a
// deployment of production.
func TestForeignGrant(t *testing.T) {
	recipe := first(t, "docs/start-from-any-language.md", "ts grant")
	text := strings.Replace(first(t, "docs/write-a-plan.md", "yaml plan"), "name: greet\n", "name: greet\nagent: tutor\n", 1)
	secret, log, err := ledger.NewKey("example.com/log")
	require.NoError(t, err)
	key := func() (*trust.Key, []byte) {
		k, pem, err := trust.NewKey()
		require.NoError(t, err)
		return k, pem
	}
	ada, _ := key()
	ben, _ := key()
	author, _ := key()
	starts, pem := key()
	b := &trust.Bootstrap{
		Format: trust.BootstrapFormat, Deployment: "example", Audience: trust.Prod, Quorum: 2, Issued: ledger.At(time.Now()),
		Log: trust.LogKey{Origin: "example.com/log", Key: log}, Witnesses: trust.Witnesses{Keys: []string{}},
		Admins: []trust.Admin{{ID: "ada", Person: "ada", Key: ada.Public()}, {ID: "ben", Person: "ben", Key: ben.Public()}},
	}
	dir := t.TempDir()
	h := stage.Host(t, host.Options{Store: store.Options{Dir: filepath.Join(dir, "store"), Key: secret}, Trust: b})
	books := h.Store().Ledger
	s, err := trust.Start(b)
	require.NoError(t, err)
	e, err := s.Draft(time.Now(), &trust.AddPublisher{ID: "fay", Person: "fay", Key: author.Public(), Uses: []string{trust.UsePlans}},
		&trust.AddAgent{AgentID: "tutor", Owner: "ada", Keys: []string{starts.Public()}}).Envelope(ada, ben)
	require.NoError(t, err)
	statement, err := e.Encode()
	require.NoError(t, err)
	_, err = trust.Publish(t.Context(), books, b, statement, time.Now())
	require.NoError(t, err)
	p, ds := compiler.Compile(compiler.Source{Name: "plan", Text: []byte(text)}, operations(t), nil)
	require.False(t, ds.HasErrors(), "%v", ds)
	raw, err := p.Encode()
	require.NoError(t, err)
	row := ledger.Plan{Name: p.Name, Version: p.Version, Digest: plan.DigestOf(raw), Author: "fay", Agent: p.Agent}
	row.SourceDigest, err = books.PutBlob(t.Context(), []byte(text))
	require.NoError(t, err)
	row.Signature, err = trust.SignPlan(author, trust.Plan{
		Deployment: "example", Audience: trust.Prod, Author: "fay", Name: row.Name, Version: row.Version, SourceDigest: row.SourceDigest, Digest: row.Digest, Issued: ledger.At(time.Now()),
	})
	require.NoError(t, err)
	_, err = books.PublishPlan(t.Context(), row)
	require.NoError(t, err)

	require.NoError(t, os.Symlink(filepath.Join(npm.Dir(t), "node_modules"), filepath.Join(dir, "node_modules")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "start.key"), pem, 0o600))
	run := func(recipe string) (string, error) {
		program := strings.NewReplacer("localhost:7233", stage.Temporal(t).Address, "'greet-ada'", "'docs-granted'").Replace(recipe)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "grant.mjs"), []byte(program), 0o600))
		cmd := exec.CommandContext(t.Context(), "node", "grant.mjs")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PLAN_DIGEST="+row.Digest)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run(recipe)
	require.NoError(t, err, out)
	require.Contains(t, out, "{ greeting: 'Hello, Ada!' }")
	opened, err := books.Run(t.Context(), "docs-granted", "")
	require.NoError(t, err)
	require.Equal(t, "grace@example.com", opened.Requester)
	require.NotEmpty(t, opened.GrantDigest)

	// Texts that canonical JSON has its own form for.
	out, err = run(strings.Replace(recipe, "{ name: 'Ada' }", "{ name: 'A\\u2028\\u2029\\u007f\\u0001\\n\"<&>é😀' }", 1))
	require.NoError(t, err, out)
	require.Contains(t, out, "Hello, A")
	out, err = run(strings.Replace(recipe, "agent: 'tutor'", "agent: 'tester'", 1))
	require.Error(t, err)
	require.Contains(t, out, "the grant is for the agent")
}

// first gives the first block of a document with that info string.
func first(t *testing.T, doc, info string) string {
	t.Helper()
	for _, b := range blocks(read(t, doc)) {
		if b.info == info {
			return b.text
		}
	}
	require.Fail(t, "no block", "%s has no block %q", doc, info)
	return ""
}
