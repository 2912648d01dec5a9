package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"path/filepath"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/lookahead"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/skills"
)

// planForecast is what is expected of a plan before it starts.
type planForecast struct {
	// OK: all effects are forecast, and the guardian would let each through.
	OK     bool   `json:"ok"`
	Plan   string `json:"plan"`
	Digest string `json:"plan_digest"`
	Agent  string `json:"agent"`
	// Incomplete: of an effect the arguments or the risk are not known.
	Incomplete bool `json:"incomplete"`
	// Risk is what the probability that any bound is broken is at most: the sum of the effects' risks, up to 1.
	// It is there unless the forecast is incomplete.
	Risk json.Number `json:"risk,omitempty"`
	// Effects are in an order in which the plan can have them.
	Effects []planEffect `json:"effects"`
	// Unreached are effects that the plan does not have with this input, and Undoing those that undo others,
	// which are not forecast.
	Unreached []string `json:"unreached,omitempty"`
	Undoing   []string `json:"undoing,omitempty"`
	// Faults are the nodes that would fail.
	Faults []nodeFault `json:"faults,omitempty"`
	// Shared are KPIs by which several effects are judged. Each of these is forecast by itself.
	Shared      []sharedKPI      `json:"shared_kpis,omitempty"`
	Diagnostics diag.Diagnostics `json:"diagnostics"`
}

// planEffect is an effect of a plan.
type planEffect struct {
	Node string `json:"node"`
	// Certain: it is called if those before it succeed. Otherwise Depends are the edges on which that depends.
	Certain bool     `json:"certain"`
	Depends []string `json:"depends_on,omitempty"`
	// Unknown are what the arguments depend on.
	Unknown []unknownValue `json:"unknown,omitempty"`
	// Problem says why the call would fail before it is made.
	Problem string `json:"problem,omitempty"`
	// Foreseen is there if the arguments are known.
	Foreseen *foreseen `json:"foreseen,omitempty"`
	// operation is its operation.
	operation string
}

// unknownValue is something that is not known before a run, and what to assume it with; "" if that cannot be.
type unknownValue struct {
	Value  string `json:"value"`
	Assume string `json:"assume,omitempty"`
}

type nodeFault struct {
	Node    string `json:"node"`
	Problem string `json:"problem"`
}

// sharedKPI is a KPI of one model by which several effects are judged.
type sharedKPI struct {
	Model string   `json:"model"`
	KPI   string   `json:"kpi"`
	Nodes []string `json:"nodes"`
}

// simulatePlan says what the models expect of each effect of a plan, and of the whole.
func (p *Program) simulatePlan(ctx context.Context, f *simulateFlags, file string) error {
	given := f.input
	if given == "" {
		given = "{}"
	}
	raw, err := p.input(given)
	if err != nil {
		return err
	}
	env, err := p.simulated(ctx, f)
	if err != nil {
		return err
	}
	src, err := p.read(file)
	if err != nil {
		return err
	}
	compiled, ds, digest, err := env.digest(src)
	if err != nil {
		return err
	}
	if compiled == nil {
		if !p.json() {
			ds = ds[len(env.findings):] // the others are shown
		}
		return &failure{code: exitNegative, message: "the plan does not compile", diagnostics: ds, sources: env.texts(src)}
	}
	if !p.json() {
		p.diagnose(ds[len(env.findings):], env.texts(src))
	}
	if err := fits(compiled, raw); err != nil {
		return err
	}
	assumed, err := f.assumed(compiled)
	if err != nil {
		return err
	}
	input, err := schemas.Decode(raw)
	if err != nil {
		return err
	}
	answer := env.ahead(compiled, digest, lookahead.Follow(compiled, input, assumed, builtin(ctx)))
	answer.Diagnostics = ds
	if f.svg != "" {
		if err := p.drawEffects(f.svg, answer.Effects); err != nil {
			return err
		}
	}
	if p.json() {
		err = p.document(answer)
	} else {
		err = p.showPlan(answer)
	}
	if err == nil && !answer.OK {
		err = &failure{code: exitNegative}
	}
	return err
}

// assumed reads what nodes are assumed to return.
func (f *simulateFlags) assumed(compiled *plan.Plan) (lookahead.Assumed, error) {
	all := lookahead.Assumed{}
	failed := func(err error) error {
		var bad *lookahead.AssumeError
		if errors.As(err, &bad) && len(bad.Names) > 0 {
			return misuse("--assume: %s", bad.Message).meant("", bad.Name, bad.Names, "There are: "+strings.Join(bad.Names, ", ")+".")
		}
		return misuse("--assume: %s", err)
	}
	for _, given := range f.assume {
		path, text, ok := strings.Cut(given, "=")
		if !ok {
			return nil, misuse("--assume is NODE.path=JSON, not %q", given)
		}
		v, err := schemas.Decode([]byte(text))
		if err != nil {
			return nil, misuse("--assume %s: the value is not JSON: %s", path, err).withHint("A text has quotes: --assume '%s=\"…\"'", path)
		}
		if err := all.Add(compiled, path, v); err != nil {
			return nil, failed(err)
		}
	}
	if err := all.Check(compiled); err != nil {
		return nil, failed(err)
	}
	return all, nil
}

// builtin evaluates the built-in skills whose output follows from their input at once.
func builtin(ctx context.Context) lookahead.Evaluate {
	registry, _, err := host.Catalog(nil, nil)
	return func(n *plan.Node, input any) (any, bool, error) {
		if err != nil || n.Provider != skills.Engine || n.Operation == "sleep" {
			return nil, false, err
		}
		s, there := registry.Lookup(n.Provider, n.Operation)
		if !there {
			return nil, false, nil
		}
		raw, err := plan.Canonical(input)
		if err != nil {
			return nil, false, err
		}
		out, err := s.Run(ctx, raw)
		if err != nil {
			return nil, false, err
		}
		v, err := schemas.Decode(out)
		return v, err == nil, err
	}
}

// ahead forecasts the effects of a plan.
func (s *simulated) ahead(compiled *plan.Plan, digest string, o *lookahead.Outlook) planForecast {
	out := planForecast{
		Plan: compiled.Name + "@" + compiled.Version, Digest: digest, Agent: compiled.Agent, Effects: []planEffect{}, Unreached: o.Left, Undoing: o.Undoing,
	}
	for _, fault := range o.Faults {
		out.Faults = append(out.Faults, nodeFault{fault.Node, fault.Message})
	}
	risk, through := new(big.Rat), true
	for _, c := range o.Calls {
		x := s.effect(compiled, digest, &c)
		switch {
		case x.Problem != "": // it is not called
		case x.Foreseen == nil:
			out.Incomplete = true
		case x.Foreseen.Forecast != nil:
			if r := fields.Rat(string(x.Foreseen.Forecast.Risk)); r != nil {
				risk.Add(risk, r)
			} else {
				out.Incomplete = true
			}
		case x.Foreseen.Decision != guardian.Approve:
			out.Incomplete = true
		}
		through = through && x.Foreseen != nil && x.Foreseen.Decision == guardian.Approve
		out.Effects = append(out.Effects, x)
	}
	if one := big.NewRat(1, 1); risk.Cmp(one) > 0 {
		risk = one
	}
	if !out.Incomplete {
		places, _ := risk.FloatPrec()
		out.Risk = json.Number(risk.FloatString(places))
	}
	out.Shared = shared(out.Effects)
	out.OK = through && !out.Incomplete && len(out.Faults) == 0
	return out
}

// effect forecasts one effect of a plan.
func (s *simulated) effect(compiled *plan.Plan, digest string, c *lookahead.Call) planEffect {
	n := &compiled.Nodes[c.Node]
	x := planEffect{Node: n.ID, Certain: len(c.Depends) == 0, Depends: c.Depends, Problem: c.Problem, operation: n.Activity()}
	for _, g := range c.Gaps {
		u := unknownValue{Value: g.String()}
		if !g.Failed {
			u.Assume = g.String() + "=JSON"
		}
		x.Unknown = append(x.Unknown, u)
	}
	if !c.Known() {
		return x
	}
	args, err := plan.Canonical(c.Args)
	if err != nil {
		x.Problem = err.Error()
		return x
	}
	f := s.foresee(guardian.Action{
		Agent: compiled.Agent, Plan: digest, Node: n.ID, Operation: n.Activity(), Fingerprint: n.Fingerprint, Effect: n.Effect, Inputs: args,
	})
	x.Foreseen = &f
	return x
}

// shared lists the KPIs of one model by which several effects are judged.
func shared(effects []planEffect) (all []sharedKPI) {
	at := map[[2]string]int{}
	for _, x := range effects {
		if x.Foreseen == nil || x.Foreseen.Forecast == nil {
			continue
		}
		f := x.Foreseen.Forecast
		for _, k := range f.KPIs {
			key := [2]string{f.Model, k.Variable}
			i, there := at[key]
			if !there {
				i = len(all)
				at[key] = i
				all = append(all, sharedKPI{Model: f.Name, KPI: k.Variable})
			}
			all[i].Nodes = append(all[i].Nodes, x.Node)
		}
	}
	several := all[:0]
	for _, k := range all {
		if len(k.Nodes) > 1 {
			several = append(several, k)
		}
	}
	return several
}

// drawEffects draws the forecasts of a plan, one file for each: FILE, with the node's id before its ending if
// there are several.
func (p *Program) drawEffects(file string, effects []planEffect) error {
	var drawn []*foreseen
	nodes := map[*foreseen]string{}
	for _, x := range effects {
		if x.Foreseen != nil && x.Foreseen.Forecast != nil {
			drawn = append(drawn, x.Foreseen)
			nodes[x.Foreseen] = x.Node
		}
	}
	if len(drawn) == 0 {
		p.say("nothing is drawn: there is no forecast")
	}
	for _, f := range drawn {
		f.SVG = file
		if len(drawn) > 1 {
			ending := filepath.Ext(file)
			f.SVG = strings.TrimSuffix(file, ending) + "-" + nodes[f] + ending
		}
		if err := p.draw(f.SVG, f.Forecast); err != nil {
			return err
		}
	}
	return nil
}

// showPlan shows the forecast of a plan to people.
func (p *Program) showPlan(a planForecast) error {
	for _, x := range a.Effects {
		p.printf("%s  %s\n", inLine(x.Node), inLine(x.operation))
		if !x.Certain {
			p.printf("  may be called: it depends on %s\n", inLine(strings.Join(x.Depends, ", ")))
		}
		for _, u := range x.Unknown {
			if u.Assume == "" {
				p.printf("  its arguments depend on %s, which nobody can assume\n", inLine(u.Value))
				continue
			}
			p.printf("  its arguments depend on %s, which is not known: --assume '%s'\n", inLine(u.Value), inLine(u.Assume))
		}
		if x.Problem != "" {
			p.printf("  cannot be called: %s\n", inLine(x.Problem))
		}
		if x.Foreseen != nil {
			if err := p.showForeseen("  ", x.Foreseen); err != nil {
				return err
			}
		}
	}
	for _, id := range a.Unreached {
		p.printf("%s is not called with this input\n", inLine(id))
	}
	for _, fault := range a.Faults {
		p.printf("%s would fail: %s\n", inLine(fault.Node), inLine(fault.Problem))
	}
	if len(a.Undoing) > 0 {
		p.say("not forecast: what undoes effects once the run fails (%s)", inLine(strings.Join(a.Undoing, ", ")))
	}
	for _, k := range a.Shared {
		p.say("%s are all judged by %s of %s: each is forecast by itself, and what they add up to is not", inLine(strings.Join(k.Nodes, " and ")), inLine(k.KPI), inLine(k.Model))
	}
	switch {
	case a.Incomplete:
		p.printf("the forecast is incomplete: of an effect the arguments or the risk are not known\n")
	case len(a.Effects) == 0:
		p.printf("the plan has no effects with this input\n")
	default:
		p.printf("the probability that any bound is broken is at most %s, the sum of the risks\n", a.Risk)
	}
	return nil
}
