package activities_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/authority"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// unwritten is a ledger whose user may not set budgets.
type unwritten struct{ ledger.Store }

func (unwritten) SetBudget(context.Context, ledger.Budget) error {
	return errors.New("permission denied")
}

// TestBudgetsAreThoseStated: the guardian holds to the budgets that the admins have stated, whatever
// the store has.
func TestBudgetsAreThoseStated(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	source := strings.Replace(stage.ActingPlan, "template: book/write", "template: book/write, cost_estimate: 5.00", 1)
	digest := a.Publish(t, strings.Replace(source, "agent: tester,", "agent: tester, currency: USD,", 1))
	usd := func(text string) ledger.Money {
		m, err := ledger.ParseMoney(text, "USD")
		require.NoError(t, err)
		return m
	}
	refused := func(name string, kind contract.Kind, says string) {
		t.Helper()
		f := a.Fails(t, a.Start(t, name, digest, `{"line":"x"}`))
		require.Equal(t, kind, f.Kind, f.Message)
		require.Contains(t, f.Message, says)
		require.Empty(t, a.Written(t))
	}
	require.NoError(t, a.Ledger().SetBudget(t.Context(), ledger.Budget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: usd("1000.00")}))
	refused("unstated", contract.Blocked, "which the admins have not stated")

	over := &authority.Authority{Bootstrap: a.Root, Ledger: unwritten{a.Ledger()}}
	s, err := over.Propose(t.Context(), []trust.Act{&trust.SetBudget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: usd("1.00")}}, a.Admin)
	require.NoError(t, err)
	_, err = over.Apply(t.Context(), s.Envelope)
	require.ErrorContains(t, err, "permission denied")
	refused("stated", contract.Budget, "does not fit in the budget of tester")

	require.NoError(t, a.Ledger().SetBudget(t.Context(), ledger.Budget{Agent: "tester", Currency: "USD", Every: ledger.Forever, Limit: usd("1000.00")}))
	refused("altered", contract.Budget, "does not fit in the budget of tester")
	b, err := a.Ledger().Budget(t.Context(), "tester", "USD")
	require.NoError(t, err)
	require.Equal(t, usd("1.00"), b.Limit)
}

// TestErasedWhileItWaits: a run about a person who is erased while people are asked ends, and takes
// no signature.
func TestErasedWhileItWaits(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	eve := a.Enrol(t, "eve", "editor")
	digest := a.Publish(t, strings.Replace(stage.ApprovedPlan, "{approval: {groups", "{approval: {expires_in_ms: 4000, groups", 1))
	run := a.StartAbout(t, a.Client(), stage.RunID(t, "waits"), digest, `{"line":"x"}`, "erika")
	b := a.Asked(t, run, 1)[0]
	envelope := eve.Sign(t, b, approval.Approve, nil)
	require.NoError(t, a.Ledger().EraseSubject(t.Context(), "erika", "she has asked"))
	v := a.Update(t, run, envelope)
	require.False(t, v.Accepted)
	f := a.Fails(t, run)
	require.EqualValues(t, "failed", f.Kind, f.Message)
	require.Contains(t, f.Message, "was erased")
	require.Empty(t, a.Written(t))
	a.Verifies(t)
}

// TestABrokenPolicyHoldsNothingUp: while the policy of a deployment in development is being edited, what
// was valid last decides, and what was never permitted needs no undoing.
func TestABrokenPolicyHoldsNothingUp(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Pages, stage.SagaCatalog, stage.SagaPolicy)
	dir := t.TempDir()
	files := host.Files{Catalog: []string{filepath.Join(dir, "catalog.yaml")}, Policy: []string{filepath.Join(dir, "policy.yaml")}}
	write := func(name, text string) { require.NoError(t, os.WriteFile(name, []byte(text), 0o600)) }
	write(files.Catalog[0], stage.SagaCatalog)
	write(files.Policy[0], stage.SagaPolicy)
	a.Options.Reread = &files
	a.Again(t)
	eve := a.Enrol(t, "eve", "editor")
	digest := a.Publish(t, `{apiVersion: chimera/v1, kind: Plan, name: asks, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: first, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}]}}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}}],
  edges: [$input.line -> first.line, {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`)
	run := a.Start(t, "edited", digest, `{"line":"x"}`)
	b := a.Asked(t, run, 1)[0]
	write(files.Policy[0], "rules: [")
	a.Sign(t, run, b, approval.Approve, eve)
	require.NoError(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), 1)

	// A worker that begins with it decides nothing, and says where it is wrong.
	write(files.Policy[0], stage.SagaPolicy)
	run = a.Start(t, "broken", digest, `{"line":"x"}`)
	b = a.Asked(t, run, 1)[0]
	write(files.Policy[0], "rules: [")
	a.Again(t)
	a.Sign(t, run, b, approval.Approve, eve)
	f := stage.FailureOf(t, a.Await(t, run, nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, files.Policy[0]+":1: ")
	require.Empty(t, f.NotCompensated)
	require.Len(t, a.Written(t), 1)
}
