package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/trust"
)

// policyParts are the sub-commands of chimera policy.
func policyParts() []command {
	return []command{
		{name: "test", operands: "CASES…", least: 1, most: -1, prepare: policyTestCommand, completes: files,
			summary: "decide the cases of files by the policy, and say which rules no case asks for"},
		{name: "activate", prepare: policyActivateCommand, summary: "make the configured policy the active one, by a statement of the admins"},
		{name: "replay", operands: "DECISION", least: 1, most: 1, prepare: policyReplayCommand,
			summary: "make a decision of the ledger again, from its evidence and its rules, and compare"},
		{name: "diff", operands: "OLD NEW", least: 2, most: 2, prepare: policyDiffCommand, completes: files,
			summary: "say which decisions of the ledger are others by another policy; several files of a policy are separated by commas"},
		{name: "explain", operands: "CASES", least: 1, most: 1, prepare: policyExplainCommand, completes: files,
			summary: "say what each rule finds about the cases of a file, and why"},
	}
}

// policyTest is the JSON answer of policy test.
type policyTest struct {
	OK          bool             `json:"ok"`
	Policy      string           `json:"policy_digest"`
	Cases       []caseResult     `json:"cases"`
	Rules       []ruleCoverage   `json:"rules"`
	Diagnostics diag.Diagnostics `json:"diagnostics"`
}

// caseResult is what the policy said of a case.
type caseResult struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
	OK   bool   `json:"ok"`
	// Expected is the decision, and the reason where the case names one.
	Expected string           `json:"expected"`
	Record   *guardian.Record `json:"record"`
}

// ruleCoverage counts what the cases asked of a rule.
type ruleCoverage struct {
	ID string `json:"id"`
	// Asked counts the cases that the rule is about, Refused those of them that it
	// refused.
	Asked   int `json:"asked"`
	Refused int `json:"refused"`
}

func policyTestCommand(p *Program, fs *flag.FlagSet) action {
	open := gateFlags(fs)
	return func(ctx context.Context, operands []string) error {
		if countOf(operands, "-") > 1 {
			return misuse("standard input can be read once")
		}
		env, gate, err := open(ctx, p)
		if err != nil {
			return err
		}
		answer := policyTest{OK: true, Policy: env.policy.Digest(), Cases: []caseResult{}, Diagnostics: env.findings}
		for _, name := range operands {
			cases, err := p.cases(name, env)
			if err != nil {
				return err
			}
			for i := range cases {
				if err := ctx.Err(); err != nil {
					return unanswered("interrupted")
				}
				answer.add(&cases[i], gate)
			}
		}
		answer.Rules = coverage(env.policy, answer.Cases)
		if p.json() {
			err = p.document(answer)
		} else {
			p.showCases(answer)
		}
		if err == nil && !answer.OK {
			err = &failure{code: exitNegative}
		}
		return err
	}
}

// explained is the JSON answer of policy explain for one case.
type explained struct {
	Name     string          `json:"name"`
	Decision guardian.Word   `json:"decision"`
	Reason   string          `json:"reason"`
	Rules    []explainedRule `json:"rules"`
	// Simulation is what is known of the risk, if anything.
	Simulation *guardian.Simulation `json:"simulation,omitempty"`
}

type explainedRule struct {
	ID string `json:"id"`
	// About reports that the rule is about the call. Held and Error are those of the
	// record.
	About   bool            `json:"about"`
	Held    bool            `json:"held"`
	Error   string          `json:"error,omitempty"`
	Match   []explainedPart `json:"match"`
	Require []explainedPart `json:"require"`
}

type explainedPart struct {
	Depth int    `json:"depth"`
	Text  string `json:"text"`
	Value any    `json:"value"`
	Error string `json:"error,omitempty"`
}

func policyExplainCommand(p *Program, fs *flag.FlagSet) action {
	open := gateFlags(fs)
	only := fs.String("case", "", "`NAME` of the case, if not all")
	return func(ctx context.Context, operands []string) error {
		env, gate, err := open(ctx, p)
		if err != nil {
			return err
		}
		cases, err := p.cases(operands[0], env)
		if err != nil {
			return err
		}
		answer := []explained{}
		var names []string
		for i := range cases {
			if err := ctx.Err(); err != nil {
				return unanswered("interrupted")
			}
			names = append(names, cases[i].Name)
			if *only == "" || *only == cases[i].Name {
				answer = append(answer, explainCase(&cases[i], gate))
			}
		}
		if len(answer) == 0 && *only != "" {
			return misuse("%s has no case %q", operands[0], *only).meant("chimera policy explain --case ", *only, names, "The cases are listed without --case.")
		}
		if p.json() {
			return p.document(answer)
		}
		for _, x := range answer {
			p.showExplained(x)
		}
		return nil
	}
}

func explainCase(c *guardian.Case, gate *guardian.Gate) explained {
	r := gate.Decide(&c.Action, nil, c.Facts)
	out := explained{Name: c.Name, Decision: r.Decision, Reason: r.Reason, Rules: []explainedRule{}, Simulation: r.Simulation}
	rules, err := gate.Explain(&c.Action, c.Facts)
	if err != nil {
		return out // the action is malformed, so no rule is asked
	}
	for _, x := range rules {
		if x.Other {
			continue
		}
		e := explainedRule{ID: x.Rule.ID, About: x.Result != nil, Match: partsOf(x.Match), Require: partsOf(x.Require)}
		if x.Result != nil {
			e.Held, e.Error = x.Result.Held, x.Result.Error
		}
		out.Rules = append(out.Rules, e)
	}
	return out
}

func partsOf(parts []expr.Part) []explainedPart {
	out := make([]explainedPart, len(parts))
	for i, x := range parts {
		out[i] = explainedPart{Depth: x.Depth, Text: x.Text, Value: x.Value}
		if x.Err != nil {
			out[i].Error = x.Err.Error()
		}
	}
	return out
}

func (p *Program) showExplained(x explained) {
	p.printf("%s: %s %s\n", inLine(x.Name), x.Decision, x.Reason)
	p.showRisk(x.Simulation)
	for _, r := range x.Rules {
		word := "is not about it"
		switch {
		case r.Error != "":
			word = "cannot be evaluated: " + inLine(r.Error)
		case r.Held:
			word = "holds"
		case r.About:
			word = "does not hold"
		}
		p.printf("  %s %s\n", r.ID, word)
		for _, part := range append(r.Match, r.Require...) {
			value := part.Error
			if value == "" {
				raw, err := json.Marshal(part.Value)
				if err != nil {
					raw = []byte(err.Error())
				}
				value = string(raw)
			}
			p.printf("    %s%s: %s\n", strings.Repeat("  ", part.Depth), inLine(part.Text), inLine(value))
		}
	}
}

// showRisk prints what is known of a risk, if anything.
func (p *Program) showRisk(s *guardian.Simulation) {
	if s != nil {
		p.printf("  risk %s\n", inLine(strings.TrimSuffix(s.Risk+": "+s.Summary, ": ")))
	}
}

// inLine makes untrusted text fit for one line.
func inLine(s string) string {
	return excerpt.Runes(strings.NewReplacer("\n", " ", "\t", " ").Replace(printable(s)), 300)
}

// policyActivateCommand states that a policy is the active one.
func policyActivateCommand(p *Program, fs *flag.FlagSet) action {
	keys := keysFlag(fs)
	open := gateFlags(fs)
	out := fs.String("out", "", "`FILE` for the statement, where other admins are to sign it")
	return func(ctx context.Context, _ []string) error {
		env, _, err := open(ctx, p)
		if err != nil {
			return err
		}
		return p.propose(ctx, trust.Acts{&trust.ActivateBundle{Digest: env.policy.Digest()}}, *keys, *out)
	}
}

// gateFlags adds the flags of commands that decide by a policy. The function that it
// returns reads the catalog and the policy, and shows what is found in them.
func gateFlags(fs *flag.FlagSet) func(context.Context, *Program) (*environment, *guardian.Gate, error) {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	policyFile := fs.String("policy", "", "`FILE` with the operator's policy bundle; several, separated by commas, make one")
	return func(ctx context.Context, p *Program) (*environment, *guardian.Gate, error) {
		env, err := p.environment(ctx, *catalogFile, *policyFile)
		if err != nil {
			return nil, nil, err
		}
		gate, err := env.gate()
		if err == nil && !p.json() {
			p.showFindings(env)
		}
		return env, gate, err
	}
}

// cases reads a file of cases.
func (p *Program) cases(name string, env *environment) ([]guardian.Case, error) {
	src, err := p.read(name)
	if err != nil {
		return nil, err
	}
	cases, ds := guardian.ParseCases(src, env.catalog)
	if ds.HasErrors() {
		return nil, &failure{code: exitNegative, message: "the cases of " + name + " are not valid", diagnostics: ds, sources: env.texts(src)}
	}
	return cases, nil
}

// gate returns the gate of the policy and the catalog, and adds what is found to the
// findings.
func (s *environment) gate() (*guardian.Gate, error) {
	if !s.findings.HasErrors() {
		if s.policy == nil {
			return nil, misuse("no policy is given").withHint("--policy names its files, or `policy` in chimera.yaml.")
		}
		gate, ds := guardian.New(s.policy, s.catalog)
		s.findings = append(s.findings, ds...)
		if gate != nil {
			return gate, nil
		}
	}
	return nil, &failure{code: exitNegative, message: "the catalog or the policy is not valid", diagnostics: s.findings, sources: s.sources}
}

// add decides a case.
func (t *policyTest) add(c *guardian.Case, gate *guardian.Gate) {
	r := gate.Decide(&c.Action, nil, c.Facts)
	result := caseResult{
		Name: c.Name, File: c.Range.File, Line: c.Range.Start.Line, Record: r,
		OK: r.Decision == c.Decision && (c.Reason == "" || r.Reason == c.Reason), Expected: strings.TrimSpace(string(c.Decision) + " " + c.Reason),
	}
	t.OK = t.OK && result.OK
	t.Cases = append(t.Cases, result)
}

// coverage counts what the cases asked of each rule.
func coverage(b *policy.Bundle, cases []caseResult) []ruleCoverage {
	out := make([]ruleCoverage, 0, len(b.Rules))
	for _, r := range b.Rules {
		c := ruleCoverage{ID: r.ID}
		for i := range cases {
			for _, x := range cases[i].Record.Rules {
				if x.ID == r.ID {
					c.Asked++
					if !x.Held {
						c.Refused++
					}
				}
			}
		}
		out = append(out, c)
	}
	return out
}

func (p *Program) showCases(t policyTest) {
	failed := 0
	for _, c := range t.Cases {
		got := string(c.Record.Decision) + " " + c.Record.Reason
		if c.OK {
			p.printf("ok    %s: %s\n", inLine(c.Name), got)
			continue
		}
		failed++
		p.printf("FAIL  %s: %s, expected %s\n", inLine(c.Name), got, inLine(c.Expected))
		p.printf("      %s:%d\n", c.File, c.Line)
		for _, o := range c.Record.Objections {
			p.printf("      %s %s\n", o.Decision, inLine(strings.TrimSuffix(o.Reason+": "+o.Detail, ": ")))
		}
	}
	of := func(without func(ruleCoverage) bool) string {
		var ids []string
		for _, r := range t.Rules {
			if without(r) {
				ids = append(ids, r.ID)
			}
		}
		slices.Sort(ids)
		return strings.Join(ids, ", ")
	}
	if ids := of(func(r ruleCoverage) bool { return r.Asked == 0 }); ids != "" {
		p.printf("rules that no case asks for: %s\n", ids)
	}
	if ids := of(func(r ruleCoverage) bool { return r.Asked > 0 && r.Refused == 0 }); ids != "" {
		p.printf("rules that refuse no case: %s\n", ids)
	}
	p.printf("%s, %d failed\n", plural(len(t.Cases), "case"), failed)
}
