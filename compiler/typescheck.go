package compiler

import (
	"bytes"
	"encoding/json"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

type predicateCheck struct {
	source   string
	problems []expr.Problem
}

type templateCheck struct {
	made     *template
	result   *schemas.Schema
	problems []expr.TemplateProblem
}

// programAt and templateAt are expressions under what is known of their names.
type programAt struct {
	program *expr.Program
	sight   sight
}

type templateAt struct {
	template *expr.Template
	sight    sight
}

// checkPredicate checks a condition against the types of its names. It gives the
// condition with its conversions written out, and whether it is refused.
func (u *unit) checkPredicate(v *syntax.Value, p *expr.Program, s sight, node, edge string) (source string, refused bool) {
	key := programAt{p, s}
	c, ok := u.checkedPredicates[key]
	if !ok {
		u.judged, u.judgement = key, p.Judge(u.typing(s))
		c.source, c.problems = u.judgement.Check()
		u.checkedPredicates[key] = c
	}
	for _, x := range c.problems {
		u.problem(u.point(v, x.Offset), v.Range(), x, node, edge)
	}
	return c.source, len(c.problems) > 0
}

// checkTemplate checks a template against the types of its names. It gives the
// template with its conversions written out and a schema of what it makes; ok is
// false if it is refused.
func (u *unit) checkTemplate(v *syntax.Value, t *template, s sight, node, edge string) (made *template, result *schemas.Schema, ok bool) {
	if t.Constant() {
		return t, u.fixed(t), true
	}
	c := u.checked(t, s)
	for _, x := range c.problems {
		part := follow(v, x.Path)
		at := head(part)
		if part.Kind == syntax.String {
			at = u.point(part, x.Offset)
		}
		u.problem(at, part.Range(), x.Problem, node, edge)
	}
	return c.made, c.result, len(c.problems) == 0
}

// checked is checkTemplate without its findings.
func (u *unit) checked(t *template, s sight) templateCheck {
	key := templateAt{t.Template, s}
	c, ok := u.checkedTemplates[key]
	if !ok {
		value, result, problems := t.Check(u.typing(s))
		c = templateCheck{made: t, result: result, problems: problems}
		if raw, err := plan.Canonical(value); err == nil && len(problems) == 0 {
			c.made = &template{Template: t.Template, value: value, raw: raw, scope: t.scope, converted: !bytes.Equal(raw, t.raw)}
		}
		u.checkedTemplates[key] = c
	}
	return c
}

// ready is a template as a run evaluates it, with the conversions of numbers that
// it needs.
func (u *unit) ready(t *template) *expr.Template {
	if !t.converted {
		return t.Template
	}
	r, ok := u.readied[t]
	if !ok {
		r = t.Template
		if x, errs := expr.CompileTemplate(t.value, t.scope); len(errs) == 0 {
			r = x
		}
		u.readied[t] = r
	}
	return r
}

// readyPredicate is the same for the condition of an edge.
func (u *unit) readyPredicate(doc *document, e *edge) *expr.Program {
	before, ok := u.before(doc, e)
	if !ok || e.predicate == nil {
		return e.predicate
	}
	key := programAt{e.predicate, before}
	p, ok := u.readiedPredicates[key]
	if !ok {
		p = e.predicate
		c, known := u.checkedPredicates[key]
		if !known {
			c.source, c.problems = p.Check(u.typing(before))
			u.checkedPredicates[key] = c
		}
		scope := expr.When
		if e.kind == plan.Error {
			scope = expr.ErrorWhen
		}
		if len(c.problems) == 0 && c.source != e.when.Text {
			if x, err := expr.CompilePredicate(c.source, scope); err == nil {
				p = x
			}
		}
		u.readiedPredicates[key] = p
	}
	return p
}

// fixed is the schema of the one value of a template without expressions.
func (u *unit) fixed(t *template) *schemas.Schema {
	return u.prover.make(made{form: "constant " + string(t.raw)}, func() schemas.Keywords { return constant(t.value) })
}

// kindCode is the code of a kind of problem.
func kindCode(k expr.Kind) diag.Code {
	switch k {
	case expr.MayFail:
		return diag.TypeExprMayFail
	case expr.Predicate:
		return diag.TypePredicate
	case expr.Wrong:
	}
	return diag.TypeExpr
}

// spoken begins a sentence with a capital letter, unless it begins with a name of
// the expression.
func spoken(s string) string {
	for _, start := range []string{"the ", "a ", "an ", "only ", "what ", "numbers "} {
		if strings.HasPrefix(s, start) {
			return sentence(s)
		}
	}
	return s
}

// problem reports what the checker of expressions found.
func (u *unit) problem(at, whole diag.Range, p expr.Problem, node, edge string) {
	d := diag.Diagnostic{
		Summary: "the expression is wrong for the types of its names", Detail: spoken(strings.TrimRight(p.Message, ".") + "."),
		Subject: at, Context: whole, Node: node, Edge: edge, Suggestion: p.Hint,
	}
	switch d.Code = kindCode(p.Kind); p.Kind {
	case expr.MayFail:
		d.Summary = "the expression may fail"
	case expr.Predicate:
		d.Summary = "the condition is not always true or false"
	case expr.Wrong:
	}
	if p.Witness != nil {
		if raw, err := json.Marshal(p.Witness); err == nil {
			d.Witness = clip(string(raw), 400)
		}
	}
	u.report(d)
}
