package main

import (
	"context"
	"maps"
	"slices"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// verdict is the JSON answer for one plan.
type verdict struct {
	// File is set if several plans were given.
	File string `json:"file,omitempty"`
	OK   bool   `json:"ok"`
	// Digest is null if the plan does not compile.
	Digest      *string          `json:"plan_digest"`
	Diagnostics diag.Diagnostics `json:"diagnostics"`
}

func compileCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	policyFile := fs.String("policy", "", "`FILE` with the operator's policy bundle; several, separated by commas, make one")
	expand := fs.Bool("expand", false, "print the plan in its long notation")
	shorten := fs.Bool("shorten", false, "print the plan in its short notation")
	return func(ctx context.Context, operands []string) error {
		if *expand || *shorten {
			return p.rewrite(ctx, operands, *catalogFile, *policyFile, *expand, *shorten)
		}
		if countOf(operands, "-") > 1 {
			return misuse("standard input can be read once")
		}
		env, err := p.environment(ctx, *catalogFile, *policyFile)
		if err != nil {
			return err
		}
		var sources []compiler.Source
		for _, name := range operands {
			src, err := p.read(name)
			if err != nil {
				return err
			}
			sources = append(sources, src)
		}
		verdicts := []verdict{}
		ok := true
		for i, src := range sources {
			if err := ctx.Err(); err != nil {
				return unanswered("interrupted")
			}
			compiled, ds, digest, err := env.digest(src)
			if err != nil {
				return err
			}
			v := verdict{OK: compiled != nil, Diagnostics: ds}
			if len(sources) > 1 {
				v.File = src.Name
			}
			if compiled != nil {
				v.Digest = &digest
			}
			ok = ok && v.OK
			verdicts = append(verdicts, v)
			if !p.json() {
				if i == 0 {
					p.showFindings(env)
				}
				own := ds[len(env.findings):]
				p.diagnose(own, env.texts(src))
				p.compiled(src.Name, compiled, v.Digest, own)
			}
		}
		switch {
		case p.json() && len(verdicts) == 1:
			err = p.document(verdicts[0])
		case p.json():
			err = p.document(verdicts)
		}
		if err == nil && !ok {
			err = &failure{code: exitNegative}
		}
		return err
	}
}

// rewrite prints a plan in its other notation.
func (p *Program) rewrite(ctx context.Context, operands []string, catalogFile, policyFile string, expand, shorten bool) error {
	switch {
	case expand && shorten:
		return misuse("--expand and --shorten exclude each other")
	case len(operands) > 1:
		return misuse("--expand and --shorten take one plan")
	}
	env, err := p.environment(ctx, catalogFile, policyFile)
	if err != nil {
		return err
	}
	src, err := p.read(operands[0])
	if err != nil {
		return err
	}
	if env.findings.HasErrors() {
		if p.json() {
			err = p.document(rewritten{Diagnostics: env.findings})
		} else {
			p.showFindings(env)
		}
		if err == nil {
			err = &failure{code: exitNegative}
		}
		return err
	}
	notation := compiler.Expand
	if shorten {
		notation = compiler.Shorten
	}
	text, ds, err := notation(src, env.catalog, env.policy)
	switch {
	case err != nil:
		return negative("%s: %s", src.Name, err)
	case p.json():
		err = p.document(rewritten{OK: text != nil, Plan: string(text), Diagnostics: append(diag.Diagnostics{}, ds...)})
	default:
		p.diagnose(ds, env.texts(src))
		_, err = p.Stdout.Write(text)
	}
	if err == nil && text == nil {
		err = &failure{code: exitNegative}
	}
	return err
}

// rewritten is the JSON answer of --expand and --shorten.
type rewritten struct {
	OK          bool             `json:"ok"`
	Plan        string           `json:"plan"`
	Diagnostics diag.Diagnostics `json:"diagnostics"`
}

func countOf(list []string, want string) int {
	n := 0
	for _, s := range list {
		if s == want {
			n++
		}
	}
	return n
}

// showFindings shows the findings in the catalog and the policy, and their number
// by file.
func (p *Program) showFindings(s *environment) {
	if len(s.findings) == 0 {
		return
	}
	p.diagnose(s.findings, s.sources)
	byFile := map[string]diag.Diagnostics{}
	for _, d := range s.findings {
		byFile[d.Subject.File] = append(byFile[d.Subject.File], d)
	}
	for _, name := range slices.Sorted(maps.Keys(byFile)) {
		p.say("%s: %s", name, counted(byFile[name]))
	}
}

// compiled prints a line about the result of a plan with these findings.
func (p *Program) compiled(name string, compiled *plan.Plan, digest *string, findings diag.Diagnostics) {
	found := counted(findings)
	if compiled != nil {
		p.printf("%s: ok  %s@%s  %s\n", name, compiled.Name, compiled.Version, *digest)
	} else if found == "" {
		found = "not compiled, because of the errors above"
	}
	if found != "" {
		p.say("%s: %s", name, found)
	}
}

// counted describes how many errors and warnings there are, or returns "".
func counted(ds diag.Diagnostics) string {
	errors := 0
	for _, d := range ds {
		if d.Severity == diag.Error {
			errors++
		}
	}
	warnings := len(ds) - errors
	switch {
	case errors > 0 && warnings > 0:
		return plural(errors, "error") + ", " + plural(warnings, "warning")
	case errors > 0:
		return plural(errors, "error")
	case warnings > 0:
		return plural(warnings, "warning")
	}
	return ""
}

// compile compiles a plan. The findings begin with those in the catalog and the policy.
func (s *environment) compile(src compiler.Source) (*plan.Plan, diag.Diagnostics, error) {
	return s.with(compiler.Compile, src)
}

// digest is compile with the digest of the plan, "" if there is none.
func (s *environment) digest(src compiler.Source) (*plan.Plan, diag.Diagnostics, string, error) {
	compiled, ds, err := s.compile(src)
	if err != nil || compiled == nil {
		return nil, ds, "", err
	}
	encoded, err := compiled.Encode()
	if err != nil {
		return nil, nil, "", negative("encoding %s: %s", src.Name, err)
	}
	return compiled, ds, plan.DigestOf(encoded), nil
}

// check is like compile, but accepts what the engine cannot run yet.
func (s *environment) check(src compiler.Source) (*plan.Plan, diag.Diagnostics, error) {
	return s.with(compiler.Check, src)
}

func (s *environment) with(
	compile func(compiler.Source, *catalog.Catalog, *policy.Bundle) (*plan.Plan, diag.Diagnostics), src compiler.Source,
) (*plan.Plan, diag.Diagnostics, error) {
	ds := append(diag.Diagnostics{}, s.findings...)
	if s.catalog == nil || s.findings.HasErrors() {
		return nil, ds, nil
	}
	compiled, found := compile(src, s.catalog, s.policy)
	if compiled != nil && s.policy != nil {
		found = append(found, guardian.Foresee(s.policy, s.catalog, compiled, src)...)
		found.Sort()
	}
	ds = append(ds, found...)
	if compiled == nil && !ds.HasErrors() {
		return nil, nil, negative("%s did not compile, and the compiler does not say why", src.Name)
	}
	return compiled, ds, nil
}

// texts returns the sources that findings point into.
func (s *environment) texts(src compiler.Source) map[string][]byte {
	all := map[string][]byte{src.Name: src.Text}
	for name, text := range s.sources {
		all[name] = text
	}
	return all
}
