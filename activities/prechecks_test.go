package activities_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
)

const checkedPlan = `{apiVersion: chimera/v1, kind: Plan, name: checked, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: write, template: book/write, with: {line: x}, commit_policy: {prechecks: [check], rollback: {none: "what is written stays"}}},
    {id: check, template: book/find}],
  edges: [$input.line -> check.line]}`

// checks fails for a line that is "bad", and waits with one that is "slow".
const checks = `in=$(cat)
case "$1" in
find)
  case "$in" in *bad*) exit 1;; *slow*) while ! test -e "$LINES_FILE.go"; do sleep 0.05; done;; esac
  echo '{"found":true}';;
write)
  echo "$in" >> "$LINES_FILE"; echo '{"ok":true}';;
esac`

// TestPrechecks: an effect happens only after its prechecks have succeeded, which the
// guardian finds in the ledger, whatever it is told.
func TestPrechecks(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", checks, findCatalog, stage.ActingPolicy)
	onlyEffects(t)
	digest := a.Publish(t, checkedPlan)
	bad := a.Start(t, "bad", digest, `{"line":"bad"}`)
	f := a.Fails(t, bad)
	require.Equal(t, contract.ToolError, f.Kind, f.Message)
	require.Equal(t, "check", f.Node)
	require.Empty(t, a.Written(t))

	// Whoever asks the guardian before the check has succeeded is told no.
	slow := a.Start(t, "slow", digest, `{"line":"slow"}`)
	stage.Until(t, "the check is called", func() bool {
		s := stage.State(t, a.Client(), slow)
		return len(s.Waiting) > 0 && s.Waiting[0].Kind == contract.WaitCall
	})
	ask := func(run client.WorkflowRun) (d contract.Decided, err error) {
		call := contract.Call{Run: contract.Identity{Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID()}, Plan: digest, Node: 1, Visit: 1, Request: "rogue"}
		return d, stage.Ask(t, contract.QueueGuardian, contract.ActivityDecide, call, &d)
	}
	_, err := ask(slow)
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	require.Equal(t, string(contract.Blocked), application.Type(), application.Message())
	ended, err := ask(bad)
	require.NoError(t, err)
	require.Equal(t, contract.Decided{Request: "rogue", Unopened: true}, ended, "nothing is permitted in a run that has ended")
	require.Empty(t, a.Written(t))
	require.NoError(t, os.WriteFile(a.Lines+".go", nil, 0o600))
	require.NoError(t, a.Await(t, slow, nil))
	require.Equal(t, []string{`{"line":"x"}`}, a.Written(t))

	// After a reset the check stands or is made again, and the effect does not happen twice.
	require.NoError(t, a.Await(t, stage.Reset(t, a.Client(), slow), nil))
	require.Len(t, a.Written(t), 1)
}

// onlyEffects fails the test if a worker of tools is asked, which may lie.
func onlyEffects(t *testing.T) {
	stage.Instead(t, contract.QueueTools, func(_ context.Context, asked any) (any, error) {
		t.Errorf("a worker of tools is asked: %+v", asked)
		return nil, nil
	})
}
