package typing

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// weakerCost refuses an estimate that may be below the catalog's price. It is
// proved that it is not if both are the same expression, or by the bounds of the
// two. A price that depends on the output is known only after the call; there the
// estimate must not be below the least that a call costs.
func (check *checker) weakerCost(doc *Document, i int, t *catalog.Template) {
	n := doc.Nodes[i]
	if n.Cost == nil || t.Cost == nil || n.Price == "" {
		return // there is nothing to compare, or it was refused
	}
	own := EstimateOf(n)
	given := cmp.Or(own.Expr, own.Amount)
	if given == "" || given == n.Price || strings.TrimSpace(n.Cost.Text) == strings.TrimSpace(t.Cost.Expr) {
		return
	}
	estimate, err := expr.CompileAmount(given, expr.Estimate)
	if err != nil {
		return // refused already
	}
	price, err := expr.CompileAmount(n.Price, scopeOf(t.Cost))
	if err != nil {
		return
	}
	before, output := scope{args: n.Input.Usable(), input: doc.input.Usable(), split: true}, n.Output.Usable()
	if before.args == nil || before.input == nil || output == nil {
		return
	}
	before.args = check.arrivesAt(doc, i, before.args)
	after, later := before, price.Reads("output")
	if later {
		after.output = output
	}
	low, high := estimate.Bounds(check.typing(before))
	least, most := price.Bounds(check.typing(after))
	if later && low.Cmp(least) >= 0 || most != nil && low.Cmp(most) >= 0 {
		return
	}
	name := fields.Quote(t.Name())
	d := diag.Diagnostic{
		Code: diag.TrustWeaker, Summary: fmt.Sprintf("`cost_estimate: %s` is below what %s costs", fields.Clip(n.Cost.Text, 80), name),
		Detail:  fmt.Sprintf("By the catalog a call costs %s %s. What an operation costs is not the plan's word; a plan may only reckon with more.", span(least, most), t.Cost.Currency),
		Subject: n.Cost.Range(), Context: t.Range, Node: n.ID, Suggestion: "leave cost_estimate out", Edits: check.Remove(n.At, "cost_estimate"),
	}
	if high != nil && high.Cmp(least) < 0 {
		check.Report(d)
		return
	}
	if !later {
		if args, e, p, found := check.cheaper(estimate, price, given, n.Price, before); found {
			d.Summary = fmt.Sprintf("`cost_estimate` may be below what %s costs", name)
			d.Detail = fmt.Sprintf("For the counterexample the plan reckons with %s %s, and by the catalog the call costs %s. A plan may only reckon with more than the catalog says: %s.",
				e, t.Cost.Currency, p, fields.Quote(fields.Clip(t.Cost.Expr, 120)))
			d.Witness = shown(args)
			check.Report(d)
			return
		}
	}
	d.Summary = fmt.Sprintf("it is not proved that `cost_estimate` is at least what %s costs", name)
	d.Detail = fmt.Sprintf("By the catalog a call costs %s %s: %s. The estimate is known to be %s. A plan may only reckon with more than the catalog says: give an amount that no call exceeds, or the catalog's own expression.",
		span(least, most), t.Cost.Currency, fields.Quote(fields.Clip(t.Cost.Expr, 120)), span(low, high))
	check.Report(d)
}

// arrivesAt returns the schema of what a node is called with: what its edges and
// `with` make, within its input schema.
func (check *checker) arrivesAt(doc *Document, i int, in *schemas.Schema) *schemas.Schema {
	a, known := check.assemble(doc, i)
	switch {
	case !known || doc.Nodes[i].Called:
		return in
	case a.types[plan.WholePort] != nil:
		return check.prover.Both(in, a.types[plan.WholePort])
	}
	return check.prover.Both(in, check.object(&a, a.types))
}

// span formats the bounds of an amount.
func span(least, most *big.Rat) string {
	switch {
	case most == nil:
		return "at least " + decimal(least)
	case least.Cmp(most) == 0:
		return decimal(least)
	}
	return "from " + decimal(least) + " to " + decimal(most)
}

// decimal formats a number with the digits it has, at most 20.
func decimal(r *big.Rat) string {
	n, exact := r.FloatPrec()
	if !exact || n > 20 {
		n = 20
	}
	return r.FloatString(n)
}

// cheaper searches for arguments whose estimate is below their price.
func (check *checker) cheaper(estimate, price *expr.Amount, given, asked string, s scope) (vars any, e, p string, found bool) {
	value := []any{"${" + given + "}", "${" + asked + "}"}
	t, errs := expr.CompileTemplate(value, expr.Estimate)
	if len(errs) > 0 {
		return nil, "", "", false
	}
	raw, err := plan.Canonical(value)
	if err != nil {
		return nil, "", "", false
	}
	q := &search{template: &embedded.Template{Template: t, Value: value, Raw: raw, Scope: expr.Estimate}, scope: s, target: schemas.False(), admits: func(vars expr.Vars) bool {
		a, err := estimate.Eval(vars)
		if err != nil {
			return false
		}
		b, err := price.Eval(vars)
		if err != nil {
			return false
		}
		x, ok := new(big.Rat).SetString(a.String())
		y, fine := new(big.Rat).SetString(b.String())
		e, p = a.String(), b.String()
		return ok && fine && x.Cmp(y) < 0
	}}
	vars, _, found = check.searchWhole(q, nil)
	return vars, e, p, found
}
