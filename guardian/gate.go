package guardian

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/schemas"
)

// Gate judges actions by a bundle and a catalog. It does not change and is safe for
// concurrent use.
type Gate struct {
	bundle *policy.Bundle
	digest string
	// operations holds those of the catalog, by name.
	operations map[string]*operation
	unmodelled map[string]bool
	// models are the causal models, by operation.
	models map[string]*model
	// made are the predictions that were made last.
	made predictions
}

// Policy is the digest of the bundle, or "" if there is none.
func (g *Gate) Policy() string { return g.digest }

// ProbCost is what the calls of probabilistic nodes in one run may cost together, or nil.
func (g *Gate) ProbCost() *policy.Money { return g.bundle.Caps.ProbCostPerRun }

// operation is an operation, and the rules that may be about it.
type operation struct {
	template *catalog.Template
	// input is the schema of its inputs, or nil if it takes anything; fault says why
	// there is none.
	input *schemas.Schema
	fault error
	rules []rule
}

// rule is a rule as it is evaluated for one operation.
type rule struct {
	*policy.Rule
	// match is nil if the rule is about all actions of the operation.
	match, require *expr.Program
}

// Bounds of checking the rules of a bundle, in steps of about a microsecond: of all
// together, and of one question.
const (
	maxWork     = 16_000_000
	maxQuestion = 20_000
	// maxTogether bounds the rules of one operation that are looked at together.
	maxTogether = 16
)

// New returns the gate of a bundle. A nil bundle, which has no rules, approves
// nothing. The gate is nil if the diagnostics contain an error: a rule that names an
// operation which the catalog does not have, or whose expressions can only fail for
// the inputs of an operation that it is about. Expressions that may fail, and rules
// that no action matches or that exclude each other, are warnings; so is a floor that names an
// operation which the catalog does not have. The same holds for causal models, and what these say of
// an operation's inputs and outputs. A bundle whose models were not read is an error: see
// [policy.Bundle.Load].
func New(b *policy.Bundle, cat *catalog.Catalog) (*Gate, diag.Diagnostics) {
	return gate(b, cat, false)
}

// gate returns the gate of a bundle. With part, the catalog is a part of that for which the
// bundle was written: rules about other operations are left out.
func gate(b *policy.Bundle, cat *catalog.Catalog, part bool) (*Gate, diag.Diagnostics) {
	g := &Gate{bundle: b, digest: b.Digest(), operations: map[string]*operation{}, unmodelled: map[string]bool{}, models: map[string]*model{}}
	if b == nil {
		g.bundle = &policy.Bundle{}
	}
	if cat != nil {
		for i := range cat.Templates {
			t := &cat.Templates[i]
			o := &operation{template: t}
			if len(t.InputSchema) > 0 {
				o.input, o.fault = schemas.Compile(t.InputSchema)
			}
			g.operations[t.Name()] = o
		}
	}
	for _, name := range g.bundle.Unmodelled {
		g.unmodelled[name] = true
	}
	c := &checker{gate: g, part: part, work: maxWork, said: map[string]bool{}}
	rules := slices.Clone(g.bundle.Rules)
	slices.SortStableFunc(rules, func(a, b policy.Rule) int { return cmp.Compare(a.ID, b.ID) })
	for i := range rules {
		c.rule(&rules[i])
	}
	c.floors()
	c.models()
	for _, name := range sortedNames(g.operations) {
		if o := g.operations[name]; o.template.Effect != plan.Pure {
			c.contradictions(o)
		}
	}
	c.found.Sort()
	if c.found.HasErrors() {
		return nil, c.found
	}
	return g, c.found
}

// checker types the rules of a gate.
type checker struct {
	gate  *Gate
	part  bool
	found diag.Diagnostics
	// work holds the steps that are left.
	work int
	// said holds the findings about expressions: one rule is checked once for each of
	// its operations.
	said map[string]bool
}

// rule adds a rule to the operations that it is about.
func (c *checker) rule(r *policy.Rule) {
	general, ok := c.compile(r)
	if !ok {
		return
	}
	names, pinned := slices.Sorted(slices.Values(r.Operations)), len(r.Operations) > 0
	names = slices.Compact(names)
	if general.match != nil {
		if matched, ok := general.match.OneOf("action", "operation"); ok {
			if pinned {
				matched = slices.DeleteFunc(matched, func(s string) bool { return !slices.Contains(names, s) })
			}
			names, pinned = matched, true
		}
	}
	if !pinned {
		typed, reachable := c.check(general, typeOf(nil, nil), "")
		if !reachable {
			c.unreachable(r)
		}
		for _, o := range c.gate.operations {
			o.rules = append(o.rules, typed)
		}
		return
	}
	reached := false
	for _, name := range names {
		o := c.gate.operations[name]
		if o == nil {
			c.unknown(r, name)
			reached = true
			continue
		}
		c.unasked(r, o)
		typed, reachable := c.check(general, typeOf(o.template, o.input), name)
		o.rules = append(o.rules, typed)
		reached = reached || reachable
	}
	if !reached {
		c.unreachable(r)
	}
}

// compile compiles the expressions of a rule.
func (c *checker) compile(r *policy.Rule) (rule, bool) {
	out := rule{Rule: r}
	var err error
	if r.Match != "" {
		if out.match, err = expr.CompilePredicate(r.Match, expr.Action); err != nil {
			c.refuse(r.InMatch(0), err)
			return out, false
		}
	}
	if out.require, err = expr.CompilePredicate(r.Require, expr.Action); err != nil {
		c.refuse(r.InRequire(0), err)
		return out, false
	}
	return out, true
}

func (c *checker) refuse(at diag.Range, err error) {
	c.found.Add(diag.Diagnostic{Severity: diag.Error, Code: diag.TypeExpr, Summary: "the expression does not compile", Detail: fields.Sentence(err.Error()), Subject: at})
}

// check types a rule for the actions of a schema, and returns it with the conversions
// of numbers that its arithmetic needs. reachable is false if no such action matches.
func (c *checker) check(r rule, action *schemas.Schema, operation string) (typed rule, reachable bool) {
	typing := expr.Typing{Types: expr.Types{"action": action}, Work: &c.work}
	if r.match != nil {
		judged := r.match.Judge(typing)
		source, problems := judged.Check()
		for _, p := range problems {
			c.problem(r.Rule, r.InMatch(p.Offset), p, operation)
		}
		r.match = converted(r.match, r.Match, source)
		typing = judged.Narrow(true)
		if c.none(typing) {
			return r, false
		}
	}
	source, problems := r.require.Check(typing)
	for _, p := range problems {
		c.problem(r.Rule, r.InRequire(p.Offset), p, operation)
	}
	r.require = converted(r.require, r.Require, source)
	return r, true
}

// converted returns the program of a text whose conversions of numbers are written
// out, which compiles if the text does.
func converted(p *expr.Program, text, source string) *expr.Program {
	if source != text {
		if with, err := expr.CompilePredicate(source, expr.Action); err == nil {
			return with
		}
	}
	return p
}

// none reports whether it is proved that no action is left.
func (c *checker) none(t expr.Typing) bool {
	if c.work <= 0 {
		return false
	}
	r := containment.Empty(t.Types["action"], containment.Options{Steps: min(maxQuestion, c.work)})
	c.work -= r.Steps
	return r.Verdict == containment.Proved
}

// problem reports a finding about an expression of a rule.
func (c *checker) problem(r *policy.Rule, at diag.Range, p expr.Problem, operation string) {
	d := diag.Diagnostic{
		Severity: diag.Error, Code: diag.TypeExpr, Summary: fmt.Sprintf("the rule %s is wrong for the types of its names", fields.Quote(r.ID)),
		Detail: strings.TrimRight(p.Message, ".") + ".", Subject: at, Suggestion: p.Hint,
	}
	if !strings.HasPrefix(d.Detail, "action") {
		d.Detail = fields.Sentence(d.Detail)
	}
	if operation != "" {
		d.Detail += fmt.Sprintf(" This is about the inputs of %s.", fields.Quote(operation))
	}
	if p.Kind != expr.Wrong {
		d.Code, d.Summary = diag.TypeExprMayFail, fmt.Sprintf("the rule %s may fail", fields.Quote(r.ID))
		if p.Kind == expr.Predicate {
			d.Code = diag.TypePredicate
		}
		if !p.Strict {
			d.Severity = diag.Warning
			d.Detail += " An action for which it fails is rejected."
		}
	}
	if key := fmt.Sprint(d.Summary, at, p.Message); !c.said[key] {
		c.said[key] = true
		c.found.Add(d)
	}
}

// named is the place where a rule names an operation.
func named(r *policy.Rule, operation string) diag.Range {
	if at := r.InOperations(operation); at != r.Range {
		return at
	}
	return r.InMatch(0)
}

// unknown reports an operation that the catalog does not have.
func (c *checker) unknown(r *policy.Rule, name string) {
	if c.part {
		return
	}
	c.found.Add(diag.Diagnostic{
		Severity: diag.Error, Code: diag.TrustOperation, Summary: fmt.Sprintf("the catalog has no operation %s", fields.Quote(name)),
		Detail:  fmt.Sprintf("The rule %s is about it.", fields.Quote(r.ID)),
		Subject: named(r, name), Suggestion: syntax.Nearest(name, sortedNames(c.gate.operations)),
	})
}

// floors warns of operations that the catalog does not have: for a misspelt one nobody is asked.
func (c *checker) floors() {
	if c.part {
		return
	}
	for _, f := range c.gate.bundle.Floor {
		for _, name := range f.Operations {
			if c.gate.operations[name] != nil {
				continue
			}
			c.found.Add(diag.Diagnostic{
				Severity: diag.Warning, Code: diag.TrustOperation, Summary: fmt.Sprintf("the catalog has no operation %s", fields.Quote(name)),
				Detail:  "If `approval.floor` misspells an operation, nobody is asked to approve the right one.",
				Subject: f.Range, Suggestion: syntax.Nearest(name, sortedNames(c.gate.operations)),
			})
		}
	}
}

// unasked warns of a rule about an operation that is called without a decision, unless a
// plan asks for a review.
func (c *checker) unasked(r *policy.Rule, o *operation) {
	t := o.template
	if c.part || t.Effect != plan.Pure || t.Reviewed() {
		return
	}
	c.found.Add(diag.Diagnostic{
		Severity: diag.Warning, Code: diag.EffectOperator,
		Summary: fmt.Sprintf("%s is pure, so rules are asked only about calls that people review", fields.Quote(t.Name())),
		Detail:  "Rules are about calls that have effects, and about those of nodes with `trust_requirement: manual_review`.", Subject: named(r, t.Name()),
	})
}

// unreachable reports a rule that no action matches.
func (c *checker) unreachable(r *policy.Rule) {
	c.found.Add(diag.Diagnostic{
		Severity: diag.Warning, Code: diag.EffectOperator, Summary: fmt.Sprintf("no action matches the rule %s", fields.Quote(r.ID)),
		Detail: "Its conditions exclude each other, or what the operation takes.", Subject: r.InMatch(0),
	})
}

// contradictions reports hard rules that hold for all actions of an operation, and of
// which each can be met, but not all.
func (c *checker) contradictions(o *operation) {
	all := expr.Typing{Types: expr.Types{"action": typeOf(o.template, o.input)}, Work: &c.work}
	var hard []rule
	for _, r := range o.rules {
		if !r.Soft && len(hard) < maxTogether {
			hard = append(hard, r)
		}
	}
	// Most rules can be met together, also those that are about some actions only.
	together := all
	for _, r := range hard {
		together = r.require.Narrow(together, true)
	}
	if !c.none(together) {
		return
	}
	together = all
	var before []string
	for _, r := range hard {
		if r.match != nil && !c.none(r.match.Narrow(all, false)) {
			continue
		}
		if c.none(r.require.Narrow(all, true)) {
			return // a rule that forbids the operation is meant so
		}
		together = r.require.Narrow(together, true)
		if c.none(together) {
			c.found.Add(diag.Diagnostic{
				Severity: diag.Warning, Code: diag.EffectOperator,
				Summary: fmt.Sprintf("no call of %s meets the rule %s and those before it", fields.Quote(o.template.Name()), fields.Quote(r.ID)),
				Detail:  "Each of them can be met, and all of them together cannot: " + fields.Either(append(before, r.ID)) + ".", Subject: r.InRequire(0),
			})
			return
		}
		before = append(before, r.ID)
	}
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
