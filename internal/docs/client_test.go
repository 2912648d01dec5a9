package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/npm"
	"chimera.ai/engine/internal/stage"
)

func TestMain(m *testing.M) { stage.Main(m) }

// TestForeignClient runs the client that docs/start-from-any-language.md shows,
// with the first plan of docs/write-a-plan.md, as it stands there: once as it
// is, and once with a mistake in the plan.
func TestForeignClient(t *testing.T) {
	client := first(t, "docs/start-from-any-language.md", "ts")
	plan := first(t, "docs/write-a-plan.md", "yaml plan")
	h := stage.Host(t, host.Options{})
	run := func(id, plan string) (stdout, stderr string) {
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
		require.NoError(t, err, "%s%s", out, errs.String())
		return string(out), errs.String()
	}

	out, errs := run("docs-good", plan)
	require.Contains(t, out, "{ greeting: 'Hello, Ada!' }")
	require.Empty(t, errs)

	_, errs = run("docs-bad", strings.Replace(plan, "greet.greeting ->", "greet.greetings ->", 1))
	require.Contains(t, errs, "contract")
	require.Contains(t, errs, "plan/unknown-port")
	value, err := h.Client().QueryWorkflow(t.Context(), "docs-bad", "", contract.QueryState)
	require.NoError(t, err)
	var state contract.State
	require.NoError(t, value.Get(&state))
	require.Equal(t, contract.RunFailed, state.State)
	require.NotEmpty(t, state.Failure.Diagnostics)
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

// TestTutorial runs the plans of docs/write-a-plan.md and gets what the page
// says.
func TestTutorial(t *testing.T) {
	page := read(t, "docs/write-a-plan.md")
	h := stage.Host(t, host.Options{})
	for _, c := range []struct{ name, input, want string }{
		{"greet", `{"name":"Ada"}`, `{"greeting":"Hello, Ada!"}`},
		{"route", `{"words":11,"threshold":10}`, `{"verdict":"long"}`},
		{"route", `{"words":10,"threshold":10}`, `{"verdict":"short"}`},
		{"patience", `{"ms":1}`, `{"slept_ms":1}`},
		{"patience", `{"ms":86400000}`, `{"slept_ms":500,"why":"timeout: engine/sleep did not answer within 500ms"}`},
	} {
		t.Run(c.name+c.input, func(t *testing.T) {
			run := stage.Start(t, h.Client(), named(t, page, c.name), c.input)
			var out json.RawMessage
			require.NoError(t, run.Get(t.Context(), &out))
			require.JSONEq(t, c.want, string(out))
		})
	}
	t.Run("an input that does not fit", func(t *testing.T) {
		run := stage.Start(t, h.Client(), named(t, page, "greet"), `{"name":""}`)
		err := run.Get(t.Context(), nil)
		var failed *temporal.ApplicationError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, string(contract.Contract), failed.Type())
		var failure contract.Failure
		require.NoError(t, failed.Details(&failure))
		require.Empty(t, failure.Node)
		require.Contains(t, failure.Message, "the plan's input")
	})
}

// named gives the plan of that name.
func named(t *testing.T, page, name string) string {
	t.Helper()
	for _, b := range blocks(page) {
		if strings.HasPrefix(b.info, "yaml plan") && strings.Contains(b.text, "\nname: "+name+"\n") {
			return b.text
		}
	}
	require.Fail(t, "no plan", name)
	return ""
}
