package guardian

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// model is the causal model of an operation.
type model struct {
	*causal.Simulator
	digest string
	// typed evaluates the model's bindings and observations with the conversions of numbers that the
	// operation's inputs and outputs need.
	typed *causal.Simulator
}

// maxPrediction bounds a prediction as JSON, in bytes, and maxWhy a text of it or about it: people read
// that, and decisions keep it.
const (
	maxPrediction = 64 << 10
	maxWhy        = 1 << 10
)

// modelVersion is the version of how models are evaluated. A record for which one was names it, since
// another version may predict otherwise; and so does the seed, so that its predictions have other ids.
const modelVersion = 1

// predict says what the model predicts of an action, by its decoded inputs, its digest and the salt of
// that. The seed is of these and of the model, so that equal actions have equal predictions. The salt is
// in it since the id of the prediction stays in the log when a person is erased: who has the log alone,
// with the action's digest and the model, must not find the interventions by trying them.
func (m *model) predict(inputs any, action string, salt []byte) (*Simulation, error) {
	do, err := m.typed.Bind(inputs)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "chimera-simulation/%d\x00%s\x00%s%s", modelVersion, action, m.digest, salt))
	s := &Simulation{Model: m.digest, Seed: hex.EncodeToString(sum[:])}
	if s.Prediction, err = m.Simulate(do, s.Seed); err != nil {
		return nil, err
	}
	s.ID, s.Risk, s.Summary = s.Prediction.ID, string(s.Prediction.Risk), s.Prediction.Summary
	raw, err := canonical(s.Prediction)
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxPrediction:
		return nil, fmt.Errorf("the prediction has %d bytes, more than %d", len(raw), maxPrediction)
	case len(s.Summary) > maxWhy:
		return nil, fmt.Errorf("the summary of the prediction has %d bytes, more than %d", len(s.Summary), maxWhy)
	}
	return s, nil
}

// foresee predicts what the action leads to, unless that is given.
func (d *decision) foresee() (*Simulation, error) {
	switch m := d.gate.models[d.action.Operation]; {
	case d.facts.Simulation != nil:
		return d.facts.Simulation, nil
	case m == nil || d.operation == nil || d.action.Effect == plan.Pure:
		return nil, nil
	default:
		d.record.Engine += fmt.Sprintf(" causal/%d", modelVersion)
		return d.gate.made.of(d.record.InputDigest, func() (*Simulation, error) { return m.predict(d.inputs, d.record.InputDigest, d.salt) })
	}
}

// Hypothesis is what the ledger keeps of a decision's prediction, for comparing it with what came
// true; nil if there is none.
func (r *Record) Hypothesis(a *Action) (*ledger.Hypothesis, error) {
	s := r.Simulation
	if s == nil || s.Prediction == nil {
		return nil, nil
	}
	inputs, err := canonical(struct {
		Operation     string                `json:"operation"`
		Interventions []causal.Intervention `json:"interventions"`
	}{a.Operation, s.Prediction.Interventions})
	if err != nil {
		return nil, fmt.Errorf("state a hypothesis: %w", err)
	}
	prediction, err := canonical(s.Prediction)
	if err != nil {
		return nil, fmt.Errorf("state a hypothesis: %w", err)
	}
	return &ledger.Hypothesis{
		HypothesisID: s.ID, AgentID: a.Agent, Description: s.Summary, Inputs: inputs, Prediction: prediction, RiskScore: json.Number(s.Risk), ToolID: a.Operation,
	}, nil
}

// models compiles the causal models of the bundle, and types what they say of operations.
func (c *checker) models() {
	b := c.gate.bundle
	for _, d := range b.Unloaded() {
		c.found.Add(d)
	}
	for i, m := range b.Models {
		at := b.ModelAt(i)
		if m == nil {
			c.found.Add(diag.Diagnostic{Severity: diag.Error, Code: diag.ModelInvalid, Summary: "a causal model of the policy is null", Subject: at})
			continue
		}
		if c.part && !slices.ContainsFunc(m.Operations, func(name string) bool { return c.gate.operations[name] != nil }) {
			continue
		}
		simulator, err := causal.New(m)
		if err == nil {
			if missing := causal.Incomplete(m); len(missing) > 0 {
				err = errors.New(missing[0].Summary)
			}
		}
		if err != nil {
			c.found.Add(diag.Diagnostic{
				Severity: diag.Error, Code: diag.ModelInvalid, Summary: fmt.Sprintf("the causal model %s cannot be evaluated", fields.Quote(m.Name)),
				Detail: fields.Sentence(err.Error()), Subject: at,
			})
			continue
		}
		if n, err := longest(m); !c.part && (err != nil || n > maxPrediction) {
			c.found.Add(diag.Diagnostic{
				Severity: diag.Error, Code: diag.PlanLimits, Summary: fmt.Sprintf("the predictions of the causal model %s can be too long", fields.Quote(m.Name)),
				Detail: fmt.Sprintf("As JSON one can have %d bytes, and may have %d: give the model fewer KPIs, these fewer categories, or bind less.", n, maxPrediction), Subject: at,
			})
			continue
		}
		for _, name := range m.Operations {
			switch o := c.gate.operations[name]; {
			case c.gate.models[name] != nil:
				c.found.Add(diag.Diagnostic{Severity: diag.Error, Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("%s has two causal models", fields.Quote(name)), Subject: at})
			case o != nil:
				c.gate.models[name] = &model{Simulator: simulator, digest: m.Digest(), typed: c.typed(simulator, o, at)}
				if o.template.Effect == plan.Pure && !c.part {
					c.found.Add(diag.Diagnostic{
						Severity: diag.Warning, Code: diag.EffectOperator, Summary: fmt.Sprintf("%s is pure, so its causal model is never asked", fields.Quote(name)),
						Detail: "Models are about calls that have effects.", Subject: at,
					})
				}
			case !c.part:
				c.found.Add(diag.Diagnostic{
					Severity: diag.Error, Code: diag.TrustOperation, Summary: fmt.Sprintf("the catalog has no operation %s", fields.Quote(name)),
					Detail:  fmt.Sprintf("The causal model %s is about it.", fields.Quote(m.Name)),
					Subject: at, Suggestion: syntax.Nearest(name, sortedNames(c.gate.operations)),
				})
			}
		}
	}
	if !c.part {
		c.size()
	}
}

// longest is how many bytes a prediction of a model can have as JSON.
func longest(m *causal.Model) (int, error) {
	const x = -1.2345678901234567e-100 // no number is longer
	number := json.Number(fmt.Sprint(x))
	p := causal.Prediction{
		ID: strings.Repeat("x", 36), Name: m.Name, Model: m.Digest(), Method: causal.MonteCarlo, Samples: causal.MaxSamples, Seed: strings.Repeat("0", 2*sha256.Size),
		Risk: number, Estimate: number, Baseline: number, Summary: strings.Repeat("x", maxWhy),
	}
	for _, b := range m.Bind {
		set := causal.Value{Number: x}
		if v := m.Variable(b.Variable); v.Categorical() {
			set = causal.Value{Category: slices.MaxFunc(v.Values, func(a, b string) int { return cmp.Compare(len(a), len(b)) })}
		}
		p.Interventions = append(p.Interventions, causal.Intervention{Variable: b.Variable, Value: set})
	}
	for _, k := range m.KPIs {
		of := causal.Distribution{Mean: number, Variance: number, P05: number, P50: number, P95: number}
		if v := m.Variable(k.Variable); v.Categorical() {
			of = causal.Distribution{}
			for _, category := range v.Values {
				of.P = append(of.P, causal.Share{Category: category, P: number})
			}
		}
		p.KPIs = append(p.KPIs, causal.Forecast{KPI: k, Broken: number, With: of, Without: of})
	}
	raw, err := canonical(p)
	return len(raw), err
}

// typed types the bindings and observations of a model for an operation. It returns what evaluates
// them.
func (c *checker) typed(s *causal.Simulator, o *operation, at diag.Range) *causal.Simulator {
	with := *s.Model()
	with.Bind, with.Observe = slices.Clone(with.Bind), slices.Clone(with.Observe)
	types := expr.Types{}
	if o.input != nil {
		types["args"] = o.input
	}
	converted := false
	convert := func(where string, all []causal.Binding, scope expr.Scope) {
		for i := range all {
			source := c.binding(s.Model(), where, all[i], scope, types, o, at)
			converted = converted || source != all[i].Expression
			all[i].Expression = source
		}
	}
	convert("bind", with.Bind, expr.Price)
	if !c.part { // decisions that are made again need no observations
		if len(o.template.OutputSchema) > 0 {
			if output, err := schemas.Compile(o.template.OutputSchema); err == nil { // else its calls fail
				types["output"] = output
			}
		}
		convert("observe", with.Observe, expr.Charge)
	}
	if converted {
		if again, err := causal.New(&with); err == nil {
			return again
		}
	}
	return s
}

// binding types an expression of a model, and returns it with the conversions of numbers that its
// arithmetic needs.
func (c *checker) binding(m *causal.Model, where string, b causal.Binding, scope expr.Scope, types expr.Types, o *operation, at diag.Range) string {
	report := func(p expr.Problem) {
		d := diag.Diagnostic{
			Severity: diag.Error, Code: diag.TypeExpr, Summary: fmt.Sprintf("`%s.%s` of the causal model %s is wrong for the types of its names", where, b.Variable, fields.Quote(m.Name)),
			Detail: strings.TrimRight(p.Message, ".") + ".", Subject: at, Suggestion: p.Hint,
		}
		if !strings.HasPrefix(d.Detail, "args") && !strings.HasPrefix(d.Detail, "output") {
			d.Detail = fields.Sentence(d.Detail)
		}
		d.Detail += fmt.Sprintf(" This is about %s.", fields.Quote(o.template.Name()))
		if p.Kind != expr.Wrong {
			d.Code, d.Summary = diag.TypeExprMayFail, fmt.Sprintf("`%s.%s` of the causal model %s may fail", where, b.Variable, fields.Quote(m.Name))
			if !p.Strict {
				d.Severity = diag.Warning
				v := m.Variable(b.Variable)
				switch {
				case where == "observe":
					d.Detail += " Then nothing is observed."
				case v != nil && v.Categorical():
					d.Detail += " A call for which it gives another text escalates, and one for which it fails is rejected."
				default:
					d.Detail += " A call for which it fails is rejected."
				}
			}
		}
		if key := fmt.Sprint(d.Summary, at, p.Message); !c.said[key] {
			c.said[key] = true
			c.found.Add(d)
		}
	}
	t, bad := expr.CompileTemplate("${"+b.Expression+"}", scope)
	if len(bad) > 0 {
		report(expr.Problem{Message: bad[0].Message})
		return b.Expression
	}
	value, result, problems := t.Check(expr.Typing{Types: types, Work: &c.work})
	for _, p := range problems {
		report(p.Problem)
	}
	want, what := schemas.Make(schemas.Keywords{Types: []string{"number"}}), "a number"
	if v := m.Variable(b.Variable); v != nil && v.Categorical() {
		all := make([]any, len(v.Values))
		for i, x := range v.Values {
			all[i] = x
		}
		want, what = schemas.Make(schemas.Keywords{Enum: all}), fields.Either(v.Values)
	}
	if len(problems) == 0 && result != nil {
		p := expr.Problem{Kind: expr.MayFail, Message: fmt.Sprintf("it is not proved that the result is %s", what)}
		switch {
		case c.none(expr.Typing{Types: expr.Types{"action": schemas.Make(schemas.Keywords{All: []*schemas.Schema{result, want}})}}):
			report(expr.Problem{Kind: expr.Wrong, Message: fmt.Sprintf("the result must be %s, and never is", what)})
		case c.work > 0 && containment.Prove(result, want, containment.Options{Steps: min(maxQuestion, c.work)}).Verdict != containment.Proved:
			report(p)
		}
	}
	strict := slices.ContainsFunc(problems, func(p expr.TemplateProblem) bool { return p.Strict })
	if text, ok := value.(string); ok && !strict {
		return strings.TrimSuffix(strings.TrimPrefix(text, "${"), "}")
	}
	return b.Expression
}

// size reports a bundle whose rules, which the ledger keeps with its decisions, are too long for that.
func (c *checker) size() {
	b := c.gate.bundle
	if len(b.Models) == 0 {
		return
	}
	rules, err := c.gate.Rules("")
	var data []byte
	if err == nil {
		data, err = json.Marshal(ledger.RulesData{Digest: plan.DigestOf(rules.Policy), Rules: rules.Policy})
	}
	if err == nil {
		_, err = ledger.Body{Data: data}.Encode()
	}
	if err != nil {
		c.found.Add(diag.Diagnostic{
			Severity: diag.Error, Code: diag.PlanLimits, Summary: "the policy with its causal models is too long for the ledger", Subject: b.ModelAt(0),
			Detail: fmt.Sprintf("The ledger keeps both, as one JSON document, so that decisions can be made again. It has %d bytes, and may have about %d: use shorter tables and empirical distributions.", len(data), ledger.MaxBodyBytes),
		})
	}
}
