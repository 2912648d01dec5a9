package typing

import (
	"bytes"
	"slices"
	"strings"

	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// predicateCheck and templateCheck are what checking an expression finds. If it is
// strict, a problem is not left to the run.
type predicateCheck struct {
	source   string
	problems []expr.Problem
	strict   bool
}

type templateCheck struct {
	made     *embedded.Template
	result   *schemas.Schema
	problems []expr.TemplateProblem
	strict   bool
}

// programAt and templateAt are expressions in a scope.
type programAt struct {
	program *expr.Program
	scope   scope
}

type templateAt struct {
	template *expr.Template
	scope    scope
}

// checkPredicate checks a condition against the types of its names. It returns the
// condition with conversions written out, and whether it is refused. If the check
// is lenient, what is not proved is left to the run.
func (check *checker) checkPredicate(v *syntax.Value, p *expr.Program, s scope, lenient bool, node, edge string) (source string, refused bool) {
	c := check.checkedPredicate(p, s)
	strict := !lenient || c.strict
	for _, x := range c.problems {
		check.problem(embedded.Point(v, x.Offset), v, x, lenient, strict, node, edge)
	}
	return c.source, len(c.problems) > 0 && strict
}

// checkedPredicate is checkPredicate without reporting.
func (check *checker) checkedPredicate(p *expr.Program, s scope) predicateCheck {
	key := programAt{p, s}
	c, ok := check.checkedPredicates[key]
	if !ok {
		check.judged, check.judgement = key, p.Judge(check.typing(s))
		c.source, c.problems = check.judgement.Check()
		c.strict = slices.ContainsFunc(c.problems, func(p expr.Problem) bool { return p.Strict })
		check.checkedPredicates[key] = c
	}
	return c
}

// checkTemplate checks a template against the types of its names. It returns the
// template with conversions written out and the schema of its results; ok is false
// if it is refused. If the check is lenient, what is not proved is left to the run.
func (check *checker) checkTemplate(v *syntax.Value, t *embedded.Template, s scope, lenient bool, node, edge string) (made *embedded.Template, result *schemas.Schema, ok bool) {
	if t.Constant() {
		return t, check.fixed(t), true
	}
	c := check.checked(t, s)
	strict := !lenient || c.strict
	for _, x := range c.problems {
		part := embedded.Follow(v, x.Path)
		at := fields.Head(part)
		if part.Kind == syntax.String {
			at = embedded.Point(part, x.Offset)
		}
		check.problem(at, part, x.Problem, lenient, strict, node, edge)
	}
	return c.made, c.result, len(c.problems) == 0 || !strict
}

// checked is checkTemplate without reporting.
func (check *checker) checked(t *embedded.Template, s scope) templateCheck {
	key := templateAt{t.Template, s}
	c, ok := check.checkedTemplates[key]
	if !ok {
		value, result, problems := t.Check(check.typing(s))
		c = templateCheck{made: t, result: result, problems: problems}
		c.strict = slices.ContainsFunc(problems, func(p expr.TemplateProblem) bool { return p.Strict })
		if raw, err := plan.Canonical(value); err == nil && !c.strict {
			c.made = &embedded.Template{Template: t.Template, Value: value, Raw: raw, Scope: t.Scope, Converted: !bytes.Equal(raw, t.Raw)}
		}
		check.checkedTemplates[key] = c
	}
	return c
}

// ready returns a template as a run evaluates it, with its conversions of numbers.
func (check *checker) ready(t *embedded.Template) *expr.Template {
	if !t.Converted {
		return t.Template
	}
	r, ok := check.readied[t]
	if !ok {
		r = t.Template
		if x, errs := expr.CompileTemplate(t.Value, t.Scope); len(errs) == 0 {
			r = x
		}
		check.readied[t] = r
	}
	return r
}

// fixed returns the schema of the value of a constant template.
func (check *checker) fixed(t *embedded.Template) *schemas.Schema {
	return check.prover.Make("constant "+string(t.Raw), func() schemas.Keywords { return proof.Constant(t.Fixed()) })
}

// kindCode is the code of a kind of problem.
func kindCode(k expr.Kind) diag.Code {
	switch k {
	case expr.MayFail:
		return diag.TypeExprMayFail
	case expr.Predicate:
		return diag.TypePredicate
	}
	return diag.TypeExpr
}

// spoken makes a sentence of s, unless it begins with a name from the expression.
func spoken(s string) string {
	for _, start := range []string{"the ", "a ", "an ", "only ", "what ", "numbers "} {
		if strings.HasPrefix(s, start) {
			return fields.Sentence(s)
		}
	}
	return s
}

// problem reports a finding of package expr, as a warning if the edge has `check:
// runtime` (lenient) and the finding does not insist on a proof.
func (check *checker) problem(at diag.Range, v *syntax.Value, p expr.Problem, lenient, strict bool, node, edge string) {
	d := diag.Diagnostic{
		Code: kindCode(p.Kind), Summary: "the expression is wrong for the types of its names", Detail: spoken(strings.TrimRight(lint.Authored(v, p.Message), ".") + "."),
		Subject: at, Context: v.Range(), Node: node, Edge: edge, Suggestion: lint.Authored(v, p.Hint),
	}
	switch p.Kind {
	case expr.MayFail:
		d.Summary = "the expression may fail"
	case expr.Predicate:
		d.Summary = "the condition is not always true or false"
	}
	switch {
	case !strict:
		d.Severity = diag.Warning
		d.Detail += " `check: runtime` leaves it to the run, where such a failure has kind `expr`."
	case lenient && p.Strict && p.Kind == expr.MayFail:
		d.Detail += " `check: runtime` does not help: a quotient of whole numbers is another one than of doubles, so the types must be known."
	}
	if p.Witness != nil {
		d.Witness = shown(p.Witness)
	}
	check.Report(d)
}
