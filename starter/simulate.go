package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/schemas"
)

// simulateParts are the sub-commands of chimera simulate.
func simulateParts() []command {
	return []command{
		{name: "model", operands: "FILE", least: 1, most: 1, prepare: simulateModelCommand, completes: files,
			summary: "check a causal model, and draw its graph with --svg"},
		{name: "init", operands: "OPERATION", least: 1, most: 1, prepare: initModelCommand, completes: operations,
			summary: "draft the causal model of an operation, from its schema and its past calls"},
		{name: "fit", operands: "MODEL", least: 1, most: 1, prepare: fitCommand, completes: files,
			summary: "fit the mechanisms of a causal model to data"},
		{name: "observe", operands: "HYPOTHESIS KPI=VALUE… | HYPOTHESIS --values JSON", least: 1, most: -1, prepare: observeCommand,
			summary: "record what was measured of a forecast, by the database's user of the guardian"},
	}
}

// simulateFlags are the flags of chimera simulate.
type simulateFlags struct {
	catalog, policy, model, agent, svg string
	args, input                        string
	assume                             texts
	report                             bool
	operation, since                   string
}

func simulateCommand(p *Program, fs *flag.FlagSet) action {
	var f simulateFlags
	fs.StringVar(&f.args, "args", "", "`JSON` of the arguments of a call, @FILE, or - for standard input")
	fs.StringVar(&f.input, "input", "", "`JSON` of a plan's input, @FILE, or - for standard input")
	fs.Var(&f.assume, "assume", "what a node returns, `NODE.path=JSON`, or NODE=JSON for all of it, where an effect of a plan depends on that; may be repeated")
	fs.StringVar(&f.catalog, "catalog", "", "`FILE` with the operations that plans may call")
	fs.StringVar(&f.policy, "policy", "", "`FILE` with the operator's policy bundle; several, separated by commas, make one")
	fs.StringVar(&f.model, "model", "", "`FILE` with a causal model that counts instead of the policy's; with --report, the name of a model")
	fs.StringVar(&f.agent, "agent", "", "`AGENT` on whose behalf the call is made; with --report, only its forecasts")
	fs.StringVar(&f.svg, "svg", "", "`FILE` to draw the KPIs to, with and without the action; with --report, the calibration curve")
	fs.BoolVar(&f.report, "report", false, "say how good the forecasts of the ledger were, by what was observed")
	fs.StringVar(&f.operation, "operation", "", "with --report, only forecasts of the `OPERATION`")
	fs.StringVar(&f.since, "since", "", "with --report, only forecasts from a `TIME` in RFC 3339, or a date, on")
	return func(ctx context.Context, operands []string) error {
		if err := f.check(fs, operands); err != nil {
			return err
		}
		switch {
		case f.report:
			return p.report(ctx, &f)
		case f.isPlan(fs, operands[0]):
			return p.simulatePlan(ctx, &f, operands[0])
		}
		return p.simulateCall(ctx, &f, operands[0])
	}
}

// check refuses flags that do not go together.
func (f *simulateFlags) check(fs *flag.FlagSet, operands []string) error {
	if f.report != (len(operands) == 0) {
		if f.report {
			return misuse("--report takes no operand, not %q", operands[0]).withHint("--operation OPERATION says what the report is about.")
		}
		return misuse("chimera simulate needs an operation or a plan").
			withHint("Usage: chimera simulate OPERATION --args JSON, chimera simulate PLAN --input JSON, or chimera simulate --report")
	}
	of := map[string][]string{"report": {"operation", "since"}, "a call or a plan": {"args", "input", "assume", "policy", "catalog"}}
	for _, name := range of["report"] {
		if fs.Changed(name) && !f.report {
			return misuse("--%s belongs to --report", name)
		}
	}
	for _, name := range of["a call or a plan"] {
		if fs.Changed(name) && f.report {
			return misuse("--%s does not go with --report", name)
		}
	}
	switch {
	case fs.Changed("args") && fs.Changed("input"):
		return misuse("--args is for an operation and --input for a plan: give one of them")
	case fs.Changed("args") && fs.Changed("assume"):
		return misuse("--assume is for a plan, and --args for an operation")
	case f.input == "-" && slices.Contains(operands, "-"):
		return misuse("standard input cannot be both the plan and its input")
	}
	return nil
}

// isPlan reports whether an operand is a plan, rather than an operation: by the flags beside it, else if
// it is a file.
func (f *simulateFlags) isPlan(fs *flag.FlagSet, operand string) bool {
	switch {
	case fs.Changed("args"):
		return false
	case fs.Changed("input"), fs.Changed("assume"), operand == "-":
		return true
	}
	return exists(operand)
}

// foreseen is what the guardian would say of one call in the step of the causal models.
type foreseen struct {
	Operation string           `json:"operation"`
	Agent     string           `json:"agent"`
	Effect    plan.EffectClass `json:"effect"`
	Args      json.RawMessage  `json:"args"`
	// Forecast is what the model says, or nil if there is no model, or it does not say anything.
	Forecast *causal.Prediction `json:"forecast,omitempty"`
	// Threshold is the risk up to which the policy lets the call through. It is there with a forecast.
	Threshold string `json:"threshold,omitempty"`
	// Decision is APPROVE, ESCALATE or REJECT, and Reason why: causal_risk, simulation_error,
	// malformed_action; for APPROVE it is within_threshold or unmodelled. Detail says more.
	Decision guardian.Word `json:"decision"`
	Reason   string        `json:"reason"`
	Detail   string        `json:"detail,omitempty"`
	// SVG is the file of the picture, or "".
	SVG string `json:"svg,omitempty"`
	// modelled reports whether the policy has a model of the operation.
	modelled bool
}

// The reasons of a call that step 4 lets through.
const (
	withinThreshold = "within_threshold"
	unmodelled      = "unmodelled"
)

// simulated is the environment of a simulation.
type simulated struct {
	*environment
	gate *guardian.Gate
}

// simulated reads the catalog, the policy and the model that takes the place of the policy's.
func (p *Program) simulated(ctx context.Context, f *simulateFlags) (*simulated, error) {
	env, err := p.environment(ctx, f.catalog, f.policy)
	if err != nil {
		return nil, err
	}
	if f.model != "" && !env.findings.HasErrors() {
		if err := p.substitute(env, f.model); err != nil {
			return nil, err
		}
	}
	gate, err := env.gate()
	if err != nil {
		return nil, err
	}
	if !p.json() {
		p.showFindings(env)
	}
	return &simulated{env, gate}, nil
}

// substitute puts a model into the policy, instead of those that are about the same operations. Without a
// policy its threshold is 0.
func (p *Program) substitute(env *environment, file string) error {
	m, src, err := p.causalModel(file)
	if err != nil {
		return err
	}
	b := &policy.Bundle{}
	if env.policy != nil {
		c := *env.policy
		b = &c
	} else {
		p.say("there is no policy: the threshold is 0")
	}
	b.Models, b.ModelFiles = nil, nil
	add := func(m *causal.Model, at policy.ModelFile) {
		b.Models, b.ModelFiles = append(b.Models, m), append(b.ModelFiles, at)
	}
	if env.policy != nil {
		for i, old := range env.policy.Models {
			same := slices.ContainsFunc(old.Operations, func(name string) bool { return slices.Contains(m.Operations, name) })
			if !same {
				add(old, policy.ModelFile{Range: env.policy.ModelAt(i)})
			}
		}
	}
	at := policy.ModelFile{Path: file}
	at.Range.File = file
	at.Range.Start.Line, at.Range.Start.Column, at.Range.End.Line, at.Range.End.Column = 1, 1, 1, 1
	add(m, at)
	env.policy, env.sources[file] = b, src
	return nil
}

// foresee says what the guardian would say of a call in the step of the causal models: it decides on the
// call as the guardian does, and what the other steps object does not count. The prediction is nil if the
// answer has none.
func (s *simulated) foresee(a guardian.Action) foreseen {
	a.Run = guardian.Run{Workflow: "simulate", Origin: "simulate", Path: a.Node}
	r := s.gate.Decide(&a, nil, guardian.Facts{At: time.Unix(0, 0).UTC(), Calls: 1, Budget: guardian.Budget{State: guardian.NoBudget}})
	out := foreseen{
		Operation: a.Operation, Agent: a.Agent, Effect: a.Effect, Args: a.Inputs, Threshold: r.Threshold,
		Decision: guardian.Approve, Reason: withinThreshold,
	}
	if s.policy != nil {
		out.modelled = slices.ContainsFunc(s.policy.Models, func(m *causal.Model) bool { return slices.Contains(m.Operations, a.Operation) })
	}
	if r.Simulation != nil {
		out.Forecast = r.Simulation.Prediction
	} else {
		out.Reason = unmodelled
	}
	for _, o := range r.Objections {
		if o.Reason == guardian.MalformedAction || o.Reason == guardian.CausalRisk || o.Reason == guardian.SimulationError {
			out.Decision, out.Reason, out.Detail = o.Decision, o.Reason, o.Detail
			break
		}
	}
	return out
}

// noPlan is what the action of a call has that is no part of a plan.
var noPlan = "sha256:" + strings.Repeat("0", 64)

// simulateCall says what the model of an operation expects of one call.
func (p *Program) simulateCall(ctx context.Context, f *simulateFlags, operation string) error {
	given := f.args
	if given == "" {
		given = "{}"
	}
	args, err := p.value("args", given)
	if err != nil {
		return err
	}
	env, err := p.simulated(ctx, f)
	if err != nil {
		return err
	}
	t, err := env.operation(operation)
	if err != nil {
		return err
	}
	if !t.Effect.Acts() {
		return negative("%s has no effect, and the guardian foresees nothing of it", operation)
	}
	answer := env.foresee(guardian.Action{
		Agent: f.agent, Plan: noPlan, Node: "call", Operation: operation, Fingerprint: t.Fingerprint, Effect: t.Effect, Inputs: args,
	})
	if f.svg != "" {
		if answer.Forecast == nil {
			p.say("nothing is drawn: there is no forecast")
		} else if err := p.draw(f.svg, answer.Forecast); err != nil {
			return err
		} else {
			answer.SVG = f.svg
		}
	}
	ok := answer.Decision == guardian.Approve
	if p.json() {
		err = p.document(struct {
			OK bool `json:"ok"`
			foreseen
		}{ok, answer})
	} else {
		err = p.showForeseen("", &answer)
	}
	if err == nil && !ok {
		err = &failure{code: exitNegative}
	}
	return err
}

// operation finds an operation of the catalog.
func (s *environment) operation(name string) (*catalog.Template, error) {
	var names []string
	for i := range s.catalog.Templates {
		t := &s.catalog.Templates[i]
		if names = append(names, t.Name()); t.Name() == name {
			return t, nil
		}
	}
	f := misuse("the catalog has no operation %q", name)
	if near := syntax.Nearest(name, names); near != "" {
		return nil, f.withHint("Did you mean %s?", near)
	}
	if !strings.Contains(name, "/") {
		return nil, f.withHint("An operation is named provider/operation. There is no file of that name either.")
	}
	return nil, f.withHint("--catalog names the file of the catalog, or `catalog` in chimera.yaml.")
}

// value reads the JSON of a flag, from the command line, a file or standard input, as canonical JSON.
func (p *Program) value(name, given string) (json.RawMessage, error) {
	text, err := p.jsonOf("--"+name, given)
	if err != nil {
		return nil, err
	}
	v, err := schemas.Decode(text)
	if err != nil {
		return nil, err
	}
	raw, err := plan.Canonical(v)
	if err != nil {
		return nil, misuse("--%s: %s", name, err)
	}
	return raw, nil
}

// sinceOf reads a time, or a date; "" is the zero time.
func sinceOf(name, given string) (at time.Time, err error) {
	if given == "" {
		return at, nil
	}
	if at, err = time.Parse(time.RFC3339, given); err != nil {
		if at, err = time.Parse(time.DateOnly, given); err != nil {
			return at, misuse("--%s is a time such as 2026-01-31T12:00:00Z, or a date such as 2026-01-31, not %q", name, given)
		}
	}
	return at, nil
}
