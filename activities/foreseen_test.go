package activities_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
)

// pageModel says whether a line runs over the end of its page, which has eight places.
const pageModel = `
apiVersion: chimera/v1
kind: CausalModel
name: page
operations: [book/write]
variables:
  length: {value: 0, range: [0, 12]}
  share: {value: 0, range: [-1, 1]}
  used: {parents: [length], linear: {intercept: 0, weights: {length: 1}}, noise: {normal: {sd: 1}}}
bind: {length: "size(args.line)", share: "1 / (size(args.line) - 5)"}
kpis: {used: {max: 8, unit: places}}
observe: {used: "output.ok ? size(args.line) : 0"}
`

const foreseenPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
thresholds: {max_auto_launch_risk: 0.1}
approval: {lift: {causal_risk: [risk]}}
models: [page.yaml]
rules:
  - {id: short, type: hard, operations: [book/write], require: 'action.inputs.line.size() < 20', message: "a line is short"}
`

// foreseen is a policy with a model.
func foreseen(t *testing.T, text, model string) *policy.Bundle {
	t.Helper()
	b := stage.Bundle(t, text)
	require.Empty(t, b.Load(func(policy.ModelFile) (*causal.Model, diag.Diagnostics) {
		return causal.Parse(diag.Source{Name: "page.yaml", Text: []byte(model)})
	}))
	return b
}

// decisions are those of the decisions of a run, in their order.
func decisions(t *testing.T, a *stage.Acting, run client.WorkflowRun) (all []guardian.Record) {
	t.Helper()
	entries, err := a.Ledger().Chain(t.Context(), ledger.RunChain(run.GetID(), run.GetRunID()), 0, 1000)
	require.NoError(t, err)
	for _, r := range entries {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Kind != ledger.DecisionMade {
			continue
		}
		d, err := a.Ledger().Decision(t.Context(), strings.TrimPrefix(e.Key, string(ledger.DecisionMade)+"/"))
		require.NoError(t, err)
		var record guardian.Record
		require.NoError(t, json.Unmarshal(d.Record, &record))
		all = append(all, record)
	}
	return all
}

// TestEffectsAreForeseen: an effect that is hardly risky happens, one that is waits for those who may lift
// that, and so does one for which the model is not valid; one whose risk cannot be calculated is refused.
// The ledger has what was predicted for each.
func TestEffectsAreForeseen(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Writes, stage.ActingCatalog, stage.ActingPolicy)
	a.Options.Policy = foreseen(t, foreseenPolicy, pageModel)
	a.Again(t)
	eve := a.Enrol(t, "eve", "risk")
	digest := a.Publish(t, stage.ActingPlan)
	hypothesis := func(r guardian.Record, observed string) {
		t.Helper()
		require.NotNil(t, r.Simulation)
		h, err := a.Ledger().Hypothesis(t.Context(), r.Simulation.ID)
		require.NoError(t, err)
		require.Equal(t, "tester", h.AgentID)
		require.Equal(t, "book/write", h.ToolID)
		require.Equal(t, r.Simulation.Summary, h.Description)
		require.Equal(t, ledger.HypothesisMeasured, h.State)
		var p causal.Prediction
		require.NoError(t, json.Unmarshal(h.Prediction, &p))
		require.Equal(t, r.Simulation.Prediction.KPIs, p.KPIs)
		require.JSONEq(t, observed, string(h.Observed))
	}

	low := a.Start(t, "low", digest, `{"line":"one"}`)
	require.NoError(t, a.Await(t, low, nil))
	require.Len(t, a.Written(t), 1)
	records := decisions(t, a, low)
	require.Len(t, records, 1)
	require.Equal(t, guardian.PolicyClear, records[0].Reason)
	hypothesis(records[0], `{"used": 3}`)

	outside := a.Start(t, "outside", digest, `{"line":"four words, or so"}`)
	high := a.Start(t, "high", digest, `{"line":"ten places"}`)
	b := a.Asked(t, high, 1)[0]
	require.Len(t, a.Written(t), 1)
	r, _, err := approval.ParseRequest(b.Request)
	require.NoError(t, err)
	require.Equal(t, []string{guardian.CausalRisk}, r.Actions[0].Lifts)
	records = decisions(t, a, high)
	require.Contains(t, records[0].Objections[0].Detail, "used")
	a.Sign(t, high, b, approval.Approve, eve)
	require.NoError(t, a.Await(t, high, nil))
	require.Len(t, a.Written(t), 2)
	records = decisions(t, a, high)
	require.Len(t, records, 2)
	require.Equal(t, guardian.HumanApproved, records[1].Reason)
	require.Equal(t, records[0].Simulation, records[1].Simulation, "the same simulation is one row")
	hypothesis(records[1], `{"used": 10}`)

	b = a.Asked(t, outside, 1)[0]
	records = decisions(t, a, outside)
	require.Nil(t, records[0].Simulation)
	require.Equal(t, guardian.CausalRisk, records[0].Reason)
	require.Contains(t, records[0].Objections[0].Detail, "17")
	a.Sign(t, outside, b, approval.Approve, eve)
	require.NoError(t, a.Await(t, outside, nil))
	require.Len(t, a.Written(t), 3)

	divided := a.Start(t, "divided", digest, `{"line":"five!"}`)
	f := a.Fails(t, divided)
	require.Equal(t, contract.Rejected, f.Kind)
	require.Contains(t, f.Message, guardian.SimulationError)
	require.Len(t, a.Written(t), 3)
	a.Verifies(t)
}

// TestModelsAreReadAgain: a deployment in development decides by a model that was changed since.
func TestModelsAreReadAgain(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	dir := t.TempDir()
	files := host.Files{Catalog: []string{filepath.Join(dir, "catalog.yaml")}, Policy: []string{filepath.Join(dir, "policy.yaml")}}
	model := func(most string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "page.yaml"), []byte(strings.Replace(pageModel, "max: 8", "max: "+most, 1)), 0o600))
	}
	require.NoError(t, os.WriteFile(files.Catalog[0], []byte(stage.ActingCatalog), 0o600))
	require.NoError(t, os.WriteFile(files.Policy[0], []byte(strings.Replace(foreseenPolicy, "approval: {lift: {causal_risk: [risk]}}\n", "", 1)), 0o600))
	model("8")
	a.Options.Reread = &files
	a.Again(t)
	digest := a.Publish(t, stage.ActingPlan)
	require.NoError(t, a.Await(t, a.Start(t, "low", digest, `{"line":"one"}`), nil))
	model("1")
	require.Contains(t, a.Fails(t, a.Start(t, "high", digest, `{"line":"one"}`)).Message, guardian.CausalRisk)
	require.Len(t, a.Written(t), 1)
}
