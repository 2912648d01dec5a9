package host_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/config"
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

// records are those of the decisions of a run, in their order.
func (a *acting) records(t *testing.T, run client.WorkflowRun) (all []guardian.Record) {
	t.Helper()
	entries, err := a.ledger().Chain(t.Context(), ledger.RunChain(run.GetID(), run.GetRunID()), 0, 1000)
	require.NoError(t, err)
	for _, r := range entries {
		e, err := ledger.DecodeEntry(r.Bytes)
		require.NoError(t, err)
		if e.Kind != ledger.DecisionMade {
			continue
		}
		d, err := a.ledger().Decision(t.Context(), strings.TrimPrefix(e.Key, string(ledger.DecisionMade)+"/"))
		require.NoError(t, err)
		var record guardian.Record
		require.NoError(t, json.Unmarshal(d.Record, &record))
		all = append(all, record)
	}
	return all
}

// TestEffectsAreForeseen: an effect that is risky waits for those who may lift that. The ledger has
// what was predicted for it, and what came of it.
func TestEffectsAreForeseen(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", writes, actingCatalog, actingPolicy)
	a.options.Policy = foreseen(t, foreseenPolicy, pageModel)
	a.again(t)
	eve := a.enrol(t, "eve", "risk")
	run := a.start(t, "high", a.publish(t, actingPlan), `{"line":"ten places"}`)
	b := a.asked(t, run, 1)[0]
	require.Empty(t, a.written(t))
	a.sign(t, run, b, approval.Approve, eve)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Len(t, a.written(t), 1)
	all := a.records(t, run)
	require.Len(t, all, 2)
	require.Equal(t, guardian.HumanApproved, all[1].Reason)
	h, err := a.ledger().Hypothesis(t.Context(), all[1].Simulation.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.HypothesisMeasured, h.State)
	require.JSONEq(t, `{"used": 10}`, string(h.Observed))
	a.replays(t, run)
	a.verifies(t)
}

// TestModelsAreRead: the files of models are read from the folder of the policy, are relied on as it is,
// and make another policy when they change; each is found fault with in its own place.
func TestModelsAreRead(t *testing.T) {
	dir := t.TempDir()
	file, model := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "page.yaml")
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write(file, foreseenPolicy)
	refused := func(in string, code diag.Code, want string) {
		t.Helper()
		b, texts, ds, err := host.LoadPolicy([]string{file})
		require.NoError(t, err)
		require.Nil(t, b)
		require.Equal(t, in, ds[0].Subject.File)
		require.Equal(t, code, ds[0].Code)
		require.Contains(t, ds[0].Summary, want)
		require.Contains(t, texts, in)
	}
	refused(file, diag.ConfigFile, "`page.yaml` cannot be read")
	require.NoError(t, os.Mkdir(model, 0o700))
	refused(file, diag.ConfigFile, "`page.yaml` cannot be read")
	require.NoError(t, os.Remove(model))
	write(model, strings.Repeat("#", causal.MaxFile+1))
	refused(file, diag.ConfigFile, "`page.yaml` cannot be read")
	write(model, strings.Replace(pageModel, "used: {max", "usd: {max", 1))
	refused(model, diag.ModelUnknown, "usd")

	write(model, pageModel)
	b, texts, ds, err := host.LoadPolicy([]string{file})
	require.NoError(t, err)
	require.Empty(t, ds)
	require.Contains(t, texts, model)
	require.Equal(t, "page", b.Models[0].Name)
	write(model, strings.Replace(pageModel, "max: 8", "max: 9", 1))
	other, _, _, err := host.LoadPolicy([]string{file})
	require.NoError(t, err)
	require.NotEqual(t, b.Digest(), other.Digest())

	c := config.Default()
	c.PolicyFiles = []string{file, filepath.Join(dir, "away.yaml")}
	require.Contains(t, host.Relied(c), model)
}
