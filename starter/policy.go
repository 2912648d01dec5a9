package main

import (
	"context"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/policy"
)

// policyParts are the sub-commands of chimera policy.
func policyParts() []command {
	return []command{
		{name: "test", operands: "CASES…", least: 1, most: -1, prepare: policyTestCommand, completes: files,
			summary: "decide the cases of files by the policy, and say which rules no case asks for"},
		{name: "replay", summary: "decide again what was decided, and compare"},
		{name: "diff", summary: "say which past decisions another policy would change"},
		{name: "explain", summary: "say what each rule found, and why"},
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
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	policyFile := fs.String("policy", "", "`FILE` with the operator's policy bundle; several, separated by commas, make one")
	return func(ctx context.Context, operands []string) error {
		if countOf(operands, "-") > 1 {
			return misuse("standard input can be read once")
		}
		env, err := p.environment(*catalogFile, *policyFile)
		if err != nil {
			return err
		}
		gate, err := env.gate()
		if err != nil {
			return err
		}
		if !p.json() {
			p.showFindings(env)
		}
		answer := policyTest{OK: true, Policy: env.policy.Digest(), Cases: []caseResult{}, Diagnostics: env.findings}
		for _, name := range operands {
			src, err := p.read(name)
			if err != nil {
				return err
			}
			cases, ds := guardian.ParseCases(src, env.catalog)
			if ds.HasErrors() {
				return &failure{code: exitNegative, message: "the cases of " + name + " are not valid", diagnostics: ds, sources: env.texts(src)}
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
			p.printf("ok    %s: %s\n", c.Name, got)
			continue
		}
		failed++
		p.printf("FAIL  %s: %s, expected %s\n", c.Name, got, c.Expected)
		p.printf("      %s:%d\n", c.File, c.Line)
		for _, o := range c.Record.Objections {
			p.printf("      %s %s\n", o.Decision, strings.TrimSuffix(o.Reason+": "+o.Detail, ": "))
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
