package guardian_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// drain is a model with a closed form: whether the balance is overdrawn by a transfer.
const drain = `
apiVersion: chimera/v1
kind: CausalModel
name: drain
version: "1"
operations: [bank/transfer]
variables:
  amount: {value: 0, range: [0, 400000]}
  balance: {parents: [amount], linear: {intercept: 100000, weights: {amount: -1}}, noise: {normal: {sd: 20000}}}
bind: {amount: "args.amount_minor"}
kpis: {balance: {min: 0, unit: cents}}
`

// sampled is a model without one: how long it takes to read a file.
const sampled = `
apiVersion: chimera/v1
kind: CausalModel
name: reading
version: "1"
operations: [files/write]
variables:
  length: {value: 0, range: [0, 1000]}
  speed: {noise: {uniform: {min: 1, max: 2}}}
  time: {parents: [length, speed], expression: "length / speed + noise", noise: {normal: {sd: 1}}}
bind: {length: "size(args.text)"}
kpis: {time: {max: 20}}
`

// modelledText is a bundle for the models, and what its rules say is short.
const modelledText = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
thresholds: {max_auto_launch_risk: 0.1, per: [{effects: [irreversible], max_auto_launch_risk: 0.05}, {agents: [bold], max_auto_launch_risk: 0.6}]}
approval: {lift: {causal_risk: [risk]}}
allow: [{effects: [irreversible], unattended: true}]
rules: [{id: any, type: hard, match: 'true', require: 'action.agent != "mallory"'}]
`

// modelOf parses a model.
func modelOf(t testing.TB, text string) *causal.Model {
	t.Helper()
	m, ds := causal.Parse(diag.Source{Name: "model.yaml", Text: []byte(text)})
	require.NotNil(t, m, errorsOf(ds))
	return m
}

// simulatorOf evaluates one of the models by its name.
func simulatorOf(t testing.TB, name string) *causal.Simulator {
	t.Helper()
	s, err := causal.New(modelOf(t, map[string]string{"drain": drain, "reading": sampled}[name]))
	require.NoError(t, err)
	return s
}

// modelled is a bundle with models.
func modelled(t testing.TB, text string, models ...string) *policy.Bundle {
	t.Helper()
	b := parse(t, text)
	for _, m := range models {
		b.Models = append(b.Models, modelOf(t, m))
	}
	return b
}

// foreseeing is the gate of a bundle with models.
func foreseeing(t testing.TB, text string, models ...string) *guardian.Gate {
	t.Helper()
	g, ds := guardian.New(modelled(t, text, models...), operations())
	require.NotNil(t, g, errorsOf(ds))
	return g
}

func transfer(minor int) func(*guardian.Action) {
	return inputs(fmt.Sprintf(`{"amount_minor": %d, "to": "x"}`, minor))
}

// TestModels: the model of an operation says whether an action is too risky, by the thresholds for its
// agent and effect class. What it is not valid for escalates, and what cannot be calculated is rejected.
func TestModels(t *testing.T) {
	g := foreseeing(t, modelledText, drain, sampled)
	unmodelledToo := foreseeing(t, modelledText+"unmodelled: [bank/transfer]\n", drain, sampled)
	divided := strings.Replace(drain, "args.amount_minor", "args.amount_minor / args.parts", 1)
	dividing := foreseeing(t, modelledText, divided)
	for _, c := range []struct {
		name   string
		gate   *guardian.Gate
		action *guardian.Action
		facts  guardian.Facts
		want   string
		// detail is part of what is objected; risk reports that there is a prediction.
		detail string
		risk   bool
	}{
		{name: "a small transfer", action: action(transfer(50_000)), want: "APPROVE policy_clear", risk: true},
		{name: "above the threshold of irreversible effects", action: action(transfer(70_000)), want: "ESCALATE causal_risk", detail: "balance", risk: true},
		{name: "below that of an agent alone", action: action(write, agent("bold"), inputs(`{"path":"/out/a","text":"`+strings.Repeat("x", 25)+`"}`)), want: "APPROVE policy_clear", risk: true},
		{name: "the least of two thresholds", action: action(transfer(70_000), agent("bold")), want: "ESCALATE causal_risk", risk: true},
		{name: "above the general threshold", action: action(write, inputs(`{"path":"/out/a","text":"`+strings.Repeat("x", 25)+`"}`)), want: "ESCALATE causal_risk", detail: "time", risk: true},
		{name: "a short text", action: action(write), want: "APPROVE policy_clear", risk: true},
		{name: "outside the range", action: action(transfer(400_001)), want: "ESCALATE causal_risk", detail: "400001"},
		{name: "outside the range, and accepted without a model", gate: unmodelledToo, action: action(transfer(400_001)), want: "APPROVE policy_clear"},
		{name: "risky, and accepted without a model", gate: unmodelledToo, action: action(transfer(90_000)), want: "ESCALATE causal_risk", risk: true},
		{name: "a division by zero", gate: dividing, action: action(inputs(`{"amount_minor": 1, "to": "x", "parts": 0}`)), want: "REJECT simulation_error", detail: "nothing can be predicted"},
		{name: "an input that is not there", gate: dividing, action: action(transfer(1)), want: "REJECT simulation_error"},
		{name: "a division", gate: dividing, action: action(inputs(`{"amount_minor": 8, "to": "x", "parts": 2}`)), want: "APPROVE policy_clear", risk: true},
		{name: "another operation", action: action(stage), want: "ESCALATE causal_risk", detail: "no causal model"},
		{name: "malformed", action: action(inputs(`{}`)), want: "REJECT malformed_action"},
		{name: "a risk that is given", action: action(transfer(90_000)), facts: facts(risk("0.01")), want: "APPROVE policy_clear", risk: true},
		{name: "people lift it", action: action(transfer(90_000)), facts: facts(unmodelled, approved("causal_risk")), want: "APPROVE human_approved", risk: true},
		{name: "people lift that the model is not valid", action: action(transfer(400_001)), facts: facts(unmodelled, approved("causal_risk")), want: "APPROVE human_approved"},
		{name: "a rule rejects", action: action(transfer(90_000), agent("mallory")), want: "REJECT policy:any", risk: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.gate == nil {
				c.gate = g
			}
			if c.facts.At.IsZero() {
				c.facts = facts(unmodelled)
			}
			salt := []byte("salt")
			r := c.gate.Decide(c.action, salt, c.facts)
			raw, err := r.Encode()
			require.NoError(t, err)
			require.Equal(t, c.want, string(r.Decision)+" "+r.Reason, string(raw))
			for _, o := range append(r.Objections, r.Lifted...) {
				if o.Reason == guardian.CausalRisk || o.Reason == guardian.SimulationError {
					require.NotEmpty(t, o.Detail)
					require.Contains(t, o.Detail, c.detail)
				}
			}
			require.Equal(t, c.risk, r.Simulation != nil, string(raw))
			var said *guardian.Record
			require.NoError(t, json.Unmarshal(raw, &said))
			again, err := said.Encode()
			require.NoError(t, err)
			require.Equal(t, string(raw), string(again))
			if c.facts.Simulation != nil {
				require.Nil(t, r.Simulation.Prediction)
				return
			}
			require.Equal(t, string(raw), string(replayed(t, c.gate, c.action, salt, c.facts)))
		})
	}
}

// evidence is that of a decision, and the rules that it is by.
func evidence(t testing.TB, g *guardian.Gate, a *guardian.Action, salt []byte, f guardian.Facts) (*guardian.Evidence, guardian.Rules) {
	t.Helper()
	rules, err := g.Rules(a.Operation)
	require.NoError(t, err)
	return &guardian.Evidence{
		Action: a, Salt: hex.EncodeToString(salt), At: ledger.At(f.At), Calls: f.Calls, Budget: f.Budget, Asks: f.Asks, Review: f.Review,
		Approved: f.Approved, Lifted: f.Lifted, Policy: plan.DigestOf(rules.Policy), Operation: plan.DigestOf(rules.Operation),
	}, rules
}

// replayed makes a decision again by its rules and its evidence alone.
func replayed(t testing.TB, g *guardian.Gate, a *guardian.Action, salt []byte, f guardian.Facts) []byte {
	t.Helper()
	e, rules := evidence(t, g, a, salt, f)
	by, err := guardian.Replay(rules)
	require.NoError(t, err)
	require.Equal(t, g.Policy(), by.Policy())
	r, err := by.Again(e)
	require.NoError(t, err)
	raw, err := r.Encode()
	require.NoError(t, err)
	return raw
}

// TestSimulation: a record holds the whole prediction, and the ledger's hypothesis is of it. The
// numbers are random by the action and the model alone.
func TestSimulation(t *testing.T) {
	g := foreseeing(t, modelledText, drain, sampled)
	for _, act := range []func(*guardian.Action){transfer(70_000), write} {
		a := action(act)
		r := g.Decide(a, []byte("salt"), facts(unmodelled))
		s := r.Simulation
		require.Equal(t, s.Prediction.ID, s.ID)
		require.Equal(t, s.Prediction.Model, s.Model)
		require.Equal(t, string(s.Prediction.Risk), s.Risk)
		require.Equal(t, s.Prediction.Summary, s.Summary)
		require.Len(t, s.Seed, 64)
		require.Contains(t, r.Engine, " causal/")
		other := g.Decide(a, []byte("pepper"), facts(unmodelled)).Simulation
		require.NotEqual(t, s.Seed, other.Seed, "nobody guesses the inputs by the seed")
		require.NotEqual(t, s.ID, other.ID)
		guess := sha256.Sum256(fmt.Appendf(nil, "chimera-simulation/1\x00%s\x00%s", r.InputDigest, s.Model))
		guessed, err := simulatorOf(t, s.Prediction.Name).Simulate(s.Prediction.Interventions, hex.EncodeToString(guess[:]))
		require.NoError(t, err)
		require.NotEqual(t, s.ID, guessed.ID, "what stays in the log of an erased person does not say what was predicted")

		h, err := r.Hypothesis(a)
		require.NoError(t, err)
		require.Equal(t, s.ID, h.HypothesisID)
		require.Equal(t, a.Agent, h.AgentID)
		require.Equal(t, a.Operation, h.ToolID)
		require.Equal(t, s.Summary, h.Description)
		require.Equal(t, s.Risk, string(h.RiskScore))
		var in struct {
			Operation     string                `json:"operation"`
			Interventions []causal.Intervention `json:"interventions"`
		}
		require.NoError(t, json.Unmarshal(h.Inputs, &in))
		require.Equal(t, a.Operation, in.Operation)
		require.Equal(t, s.Prediction.Interventions, in.Interventions)
		prediction, err := json.Marshal(s.Prediction)
		require.NoError(t, err)
		require.JSONEq(t, string(prediction), string(h.Prediction))
	}
	r := g.Decide(action(stage), nil, facts(unmodelled))
	require.NotContains(t, r.Engine, "causal", "nothing was predicted")
	h, err := r.Hypothesis(action(stage))
	require.NoError(t, err)
	require.Nil(t, h)
}

const envSimulated = "CHIMERA_SIMULATED"

// TestSimulationsElsewhere: another process makes decisions with predictions again, by their evidence and
// their rules alone, and gets the same bytes.
func TestSimulationsElsewhere(t *testing.T) {
	type kept struct {
		Evidence          json.RawMessage
		Policy, Operation json.RawMessage
		Record            []byte
	}
	if file := os.Getenv(envSimulated); file != "" {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var all []kept
		require.NoError(t, json.Unmarshal(raw, &all))
		for _, k := range all {
			e, err := guardian.ParseEvidence(k.Evidence)
			require.NoError(t, err)
			g, err := guardian.Replay(guardian.Rules{Policy: k.Policy, Operation: k.Operation})
			require.NoError(t, err)
			r, err := g.Again(e)
			require.NoError(t, err)
			again, err := r.Encode()
			require.NoError(t, err)
			require.Equal(t, string(k.Record), string(again))
		}
		return
	}
	g := foreseeing(t, modelledText, drain, sampled)
	var all []kept
	for i := range 20 {
		a := action(transfer(50_000 + 1000*i))
		if i%2 == 1 {
			a = action(write, inputs(fmt.Sprintf(`{"path":"/out/a","text":%q}`, strings.Repeat("x", 10+i))))
		}
		salt := fmt.Appendf(nil, "salt %d", i)
		record, err := g.Decide(a, salt, facts(unmodelled)).Encode()
		require.NoError(t, err)
		e, rules := evidence(t, g, a, salt, facts(unmodelled))
		raw, err := json.Marshal(e)
		require.NoError(t, err)
		all = append(all, kept{raw, rules.Policy, rules.Operation, record})
	}
	raw, err := json.Marshal(all)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "decisions")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	other.Env = append(os.Environ(), envSimulated+"="+file)
	out, err := other.CombinedOutput()
	require.NoError(t, err, string(out))
}

// TestModelsAreTyped: what is wrong with what a model says of an operation is said when the bundle is
// loaded, at the place where the bundle names the model.
func TestModelsAreTyped(t *testing.T) {
	bind := func(expression string) string {
		return strings.Replace(drain, `"args.amount_minor"`, "'"+expression+"'", 1)
	}
	category := strings.Replace(strings.Replace(drain, "variables:\n", "variables:\n  kind: {values: [good, bad], noise: {categorical: {good: 1}}}\n", 1), "bind: {", "bind: {kind: 'KIND', ", 1)
	kind := func(expression string) string { return strings.Replace(category, "KIND", expression, 1) }
	observe := func(expression string) string { return drain + "observe: {balance: '" + expression + "'}\n" }
	for _, c := range []struct {
		name, model string
		severity    diag.Severity
		code        diag.Code
		want        string
	}{
		{name: "sound", model: drain},
		{name: "sound arithmetic", model: bind("args.amount_minor * 2 + 1")},
		{name: "numbers of two kinds", model: bind("args.amount_minor * 0.5")},
		{name: "a choice", model: bind(`args.to == "x" ? 1.0 : 2.5`)},
		{name: "an operation that is not there", model: strings.Replace(drain, "bank/transfer", "bank/tranfer", 1), severity: diag.Error, code: diag.TrustOperation, want: "no operation `bank/tranfer`"},
		{name: "a pure operation", model: strings.Replace(strings.Replace(drain, "bank/transfer", "text/count", 1), `"args.amount_minor"`, "'1'", 1), severity: diag.Warning, code: diag.EffectOperator, want: "`text/count` is pure"},
		{name: "a misspelt input", model: bind("args.amount_miner"), severity: diag.Warning, code: diag.TypeExprMayFail, want: "`bind.amount`"},
		{name: "an input that may be absent", model: bind("args.parts"), severity: diag.Warning, code: diag.TypeExprMayFail, want: "`bind.amount`"},
		{name: "a text for a number", model: bind("args.to"), severity: diag.Error, code: diag.TypeExpr, want: "`bind.amount`"},
		{name: "a number or a text", model: bind(`args.to == "x" ? dyn(args.to) : dyn(1)`), severity: diag.Warning, code: diag.TypeExprMayFail, want: "`bind.amount`"},
		{name: "a category", model: kind(`args.to == "x" ? "good" : "bad"`)},
		{name: "any text for a category", model: kind("args.to"), severity: diag.Warning, code: diag.TypeExprMayFail, want: "`bind.kind`"},
		{name: "no category", model: kind(`"ugly"`), severity: diag.Error, code: diag.TypeExpr, want: "`bind.kind`"},
		{name: "an observation", model: observe("output.balance")},
		{name: "a misspelt output", model: observe("output.balence"), severity: diag.Error, code: diag.TypeExpr, want: "`observe.balance`"},
		{name: "an observation that may fail", model: observe("output.rest"), severity: diag.Warning, code: diag.TypeExprMayFail, want: "`observe.balance`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := modelled(t, modelledText, c.model)
			b.ModelFiles = []policy.ModelFile{{Path: "drain.yaml", Range: diag.Range{File: "policy.yaml", Start: diag.Pos{Line: 7, Column: 3}}}}
			cat := operations()
			cat.Templates[0].OutputSchema = json.RawMessage(`{"type":"object","properties":{"balance":{"type":"number"},"rest":{"type":"number"}},"required":["balance"],"additionalProperties":false}`)
			g, ds := guardian.New(b, cat)
			if c.want == "" {
				require.Empty(t, ds)
				return
			}
			require.Len(t, ds, 1, "%v", ds)
			require.Equal(t, c.severity, ds[0].Severity, "%v", ds)
			require.Equal(t, c.code, ds[0].Code)
			require.Contains(t, ds[0].Summary, c.want)
			require.Equal(t, 7, ds[0].Subject.Start.Line)
			require.Equal(t, c.severity == diag.Error, g == nil)
		})
	}
}

// TestConvertedBindings: numbers of two kinds are bound, and observed, as rules calculate with them.
func TestConvertedBindings(t *testing.T) {
	g := foreseeing(t, modelledText, strings.Replace(drain, "args.amount_minor", "args.amount_minor * 0.5", 1)+"observe: {balance: 'args.amount_minor * 0.25'}\n")
	r := g.Decide(action(transfer(100_001)), nil, facts(unmodelled))
	require.Equal(t, guardian.Approve, r.Decision, "%v", r.Objections)
	require.InDelta(t, 50_000.5, r.Simulation.Prediction.Interventions[0].Value.Number, 0)
	require.True(t, g.Observes("bank/transfer"))
	require.False(t, g.Observes("files/write"))
	require.JSONEq(t, `{"balance": 1.25}`, string(g.Observe("bank/transfer", r.Simulation.Model, json.RawMessage(`{"amount_minor": 5, "to": "x"}`), json.RawMessage(`{}`))))
	require.Nil(t, g.Observe("bank/transfer", "sha256:another", json.RawMessage(`{"amount_minor": 5, "to": "x"}`), json.RawMessage(`{}`)))

	// Also where the expression may fail, which is a warning.
	g = foreseeing(t, modelledText, strings.Replace(drain, "args.amount_minor", "50000.0 / args.amount_minor", 1))
	halved := action(transfer(2))
	r = g.Decide(halved, nil, facts(unmodelled))
	require.Equal(t, guardian.Approve, r.Decision, "%v", r.Objections)
	require.InDelta(t, 25_000, r.Simulation.Prediction.Interventions[0].Value.Number, 0)
	raw, err := r.Encode()
	require.NoError(t, err)
	require.Equal(t, string(raw), string(replayed(t, g, halved, nil, facts(unmodelled))))
}

// TestObserveWhatTheLedgerTakes: a number that is too large costs the other KPIs nothing.
func TestObserveWhatTheLedgerTakes(t *testing.T) {
	g := foreseeing(t, modelledText, strings.Replace(drain, "kpis: {", "kpis: {amount: {}, ", 1)+"observe: {balance: output.left, amount: output.moved}\n")
	r := g.Decide(action(transfer(1000)), nil, facts(unmodelled))
	require.NotNil(t, r.Simulation, "%v", r.Objections)
	for output, want := range map[string]string{
		`{"left": 5, "moved": 1e301}`: `{"balance": 5}`, `{"left": -1e308, "moved": 7}`: `{"amount": 7}`, `{"left": 1e300, "moved": -0.0}`: `{"balance": 1e300, "amount": 0}`,
		`{"left": "NaN", "moved": 7}`: `{"amount": 7}`,
	} {
		o := g.Observe("bank/transfer", r.Simulation.Model, json.RawMessage(`{"amount_minor": 5, "to": "x"}`), json.RawMessage(output))
		require.JSONEq(t, want, string(o), output)
	}
	require.Nil(t, g.Observe("bank/transfer", r.Simulation.Model, json.RawMessage(`{"amount_minor": 5, "to": "x"}`), json.RawMessage(`{"left": 1e301}`)))
}

// TestNoGateWithoutItsModels: a bundle is refused if its models were not read, exclude each other, cannot
// be evaluated, or are more than the ledger keeps.
func TestNoGateWithoutItsModels(t *testing.T) {
	refused := func(b *policy.Bundle, code diag.Code, want string) {
		t.Helper()
		g, ds := guardian.New(b, operations())
		require.Nil(t, g)
		require.Equal(t, code, ds[0].Code)
		require.Contains(t, ds[0].Summary, want)
	}
	unread := parse(t, modelledText+"models: [drain.yaml]\n")
	refused(unread, diag.ConfigFile, "`drain.yaml` has not been read")
	require.Empty(t, guardian.Foresee(unread, operations(), &plan.Plan{Agent: "a", Nodes: []plan.Node{{ID: "n", Provider: "notes", Operation: "stage", Effect: plan.Staged}}}, diag.Source{}))
	refused(modelled(t, modelledText, drain, drain), diag.PlanDuplicateID, "`bank/transfer` has two causal models")
	broken := modelled(t, modelledText, drain)
	broken.Models[0].Variables[1].Linear = nil
	refused(broken, diag.ModelInvalid, "`drain` cannot be evaluated")
	long := modelled(t, modelledText, drain)
	long.Rules[0].Message = strings.Repeat("x", ledger.MaxBodyBytes)
	refused(long, diag.PlanLimits, "too long for the ledger")
	refused(modelled(t, modelledText, manyCategories(24)), diag.PlanLimits, "the predictions of the causal model `drain` can be too long")
	g, ds := guardian.New(modelled(t, modelledText, manyCategories(4)), operations())
	require.NotNil(t, g, errorsOf(ds))
}

// manyCategories is a model with so many KPIs, each of 64 long categories.
func manyCategories(n int) string {
	var values, noise []string
	for i := range 64 {
		name := fmt.Sprintf("%060d", i)
		values, noise = append(values, fmt.Sprintf("%q", name)), append(noise, fmt.Sprintf("%q: %v", name, 1.0/64))
	}
	text := drain
	for i := range n {
		text = strings.Replace(text, "variables:\n", fmt.Sprintf("variables:\n  v%d: {values: [%s], noise: {categorical: {%s}}}\n", i, strings.Join(values, ", "), strings.Join(noise, ", ")), 1)
		text = strings.Replace(text, "kpis: {", fmt.Sprintf("kpis: {v%d: {}, ", i), 1)
	}
	return text
}

// TestHostileRules: rules of a log that hold no models, or others than can be evaluated, make no gate.
func TestHostileRules(t *testing.T) {
	g := foreseeing(t, modelledText, drain)
	rules, err := g.Rules("bank/transfer")
	require.NoError(t, err)
	var bundle map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(rules.Policy, &bundle))
	for _, models := range []string{`[null]`, `[{}, null]`, `[{"operations": ["bank/transfer"]}]`, `[{"operations": ["bank/transfer"], "variables": [{"name": "x", "expression": "x"}]}]`, `{}`, `"x"`} {
		bundle["Models"] = json.RawMessage(models)
		rules.Policy, err = json.Marshal(bundle)
		require.NoError(t, err)
		_, err = guardian.Replay(rules)
		require.Error(t, err, models)
	}
}

// TestForeseeModels: an operation with a model is not warned of.
func TestForeseeModels(t *testing.T) {
	text := strings.Replace(modelledText, "approval: {lift: {causal_risk: [risk]}}\n", "", 1)
	p := &plan.Plan{Agent: "a", Nodes: []plan.Node{{ID: "write", Provider: "files", Operation: "write", Effect: plan.Committing}}}
	require.Len(t, guardian.Foresee(modelled(t, text), operations(), p, diag.Source{}), 1)
	require.Empty(t, guardian.Foresee(modelled(t, text, sampled), operations(), p, diag.Source{}))
}

// TestWithoutModels: the digest of a bundle without models, what is kept of it, and the records of its
// decisions are those that they were before there were models.
func TestWithoutModels(t *testing.T) {
	g := gate(t, bundleText)
	raw, err := g.Decide(action(write), []byte("salt"), facts(unmodelled)).Encode()
	require.NoError(t, err)
	rules, err := g.Rules("files/write")
	require.NoError(t, err)
	require.Equal(t, []string{
		"sha256:457edb0524663c666c8dd5faf6c4ff6d55b7d760108ec722589bdef3a75b9b9b", "sha256:948de9c9ce104c6f3a4f87fb747207c4768dc5c3cfd9d0c21e97c61bf2664812",
		"sha256:b0177d5ec33776bc6b5f9d8d38cff097cbb5835eb121ff3d9bdda2b122eafedd", "sha256:5883b0e22cf27d4a5d24cc1d6e2117fdee11c8484c8ad5a28fff6103314daa3a",
	}, []string{g.Policy(), plan.DigestOf(raw), plan.DigestOf(rules.Policy), plan.DigestOf(rules.Operation)})
}
