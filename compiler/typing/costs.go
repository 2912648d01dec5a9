package typing

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// priceOf is the price of an operation for nodes with those schemas, which is
// checked once.
type priceOf struct {
	cost          *catalog.Cost
	input, output *schemas.Schema
}

type priceCheck struct {
	source  string
	problem *expr.Problem
}

// typeCost checks what a call costs according to the plan and the catalog.
func (check *checker) typeCost(doc *Document, n *Node) {
	if n.Template != nil && n.Template.Cost != nil {
		check.typePrice(n)
	}
	if n.Cost == nil {
		if t := n.Template; t != nil && t.Cost != nil && t.Cost.FromOutput && !n.Effect.Acts() {
			check.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the cost of %s is known only after the call", fields.Quote(t.Name())),
				Detail:  "Before the call as much is held of its agent's budget as it may cost. Say how much that is.",
				Subject: n.OperationRange(), Context: t.Range, Node: n.ID, Suggestion: "give a `cost_estimate`",
			})
		}
		return
	}
	check.typeCurrency(doc, n)
	if n.Cost.Kind == syntax.String {
		check.typeEstimate(doc, n)
	}
}

// typeCurrency finds the currency of an estimate: the catalog's, where it prices
// the operation, else the plan's.
func (check *checker) typeCurrency(doc *Document, n *Node) {
	d := diag.Diagnostic{Code: diag.PlanSchema, Subject: n.Cost.Range(), Node: n.ID}
	of := ""
	if n.Template != nil && n.Template.Cost != nil {
		of = n.Template.Cost.Currency
	}
	switch {
	case of == "" && doc.Currency == nil:
		if doc.At.Get("currency") != nil {
			return // refused already
		}
		d.Summary = "`cost_estimate` is an amount without a currency"
		d.Detail = "It is in the currency in which the catalog prices the operation, else in the plan's `currency`, and neither is given."
		d.Suggestion, d.Edits = "currency: USD", check.Set(doc.At, "currency", "USD")
	case of != "" && doc.Currency != nil && of != doc.Currency.Text:
		d.Summary = fmt.Sprintf("`cost_estimate` would be in %s, and the catalog prices %s in %s", doc.Currency.Text, fields.Quote(n.Template.Name()), of)
		d.Detail = "Amounts of different currencies are never compared or added. Leave the estimate to the catalog."
		d.Context, d.Suggestion = doc.Currency.Range(), "leave cost_estimate out"
		d.Edits = check.Remove(n.At, "cost_estimate")
	case of != "":
		n.currency = of
		return
	default:
		n.currency = doc.Currency.Text
		return
	}
	check.Report(d)
}

// typeEstimate checks the plan's estimate of what a call costs.
func (check *checker) typeEstimate(doc *Document, n *Node) {
	if strings.TrimSpace(n.Cost.Text) == "" {
		check.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: n.Cost.Range(), Node: n.ID})
		return
	}
	a := check.amount(n.Cost, expr.Estimate, n.ID)
	s := scope{args: n.Input.Usable(), input: doc.input.Usable()}
	if a == nil || s.args == nil || s.input == nil {
		return
	}
	var problems []expr.Problem
	n.estimate, problems = a.Check(check.typing(s))
	for _, p := range problems {
		check.problem(embedded.Point(n.Cost, p.Offset), n.Cost, p, false, true, n.ID, "")
	}
}

// amount compiles an expression for an amount of money, and returns nil if it does
// not compile.
func (check *checker) amount(v *syntax.Value, scope expr.Scope, node string) *expr.Amount {
	if !check.Quoted(v, node, "") {
		return nil
	}
	a, err := expr.CompileAmount(v.Text, scope)
	if err == nil {
		return a
	}
	where := &expr.Error{Message: err.Error()}
	errors.As(err, &where)
	check.Refuse(embedded.Point(v, where.Offset), v, *where, scope, "", node, "")
	return nil
}

// scopeOf returns what the expression of a cost may read.
func scopeOf(c *catalog.Cost) expr.Scope {
	if c.FromOutput {
		return expr.Charge
	}
	return expr.Price
}

// typePrice checks the catalog's price for the inputs and outputs of this node. The
// price in a catalog file has been checked for all inputs and outputs of its
// operation, and a node has no others; but a catalog can also be built by code.
func (check *checker) typePrice(n *Node) {
	t := n.Template
	in, out := n.Input.Usable(), n.Output.Usable()
	if in == nil || out == nil {
		return
	}
	key := priceOf{t.Cost, in, nil}
	if t.Cost.FromOutput {
		key.output = out
	}
	c, known := check.prices[key]
	if !known {
		c = check.price(t.Cost, in, out)
		check.prices[key] = c
	}
	n.Price = c.source
	if c.problem == nil {
		return
	}
	d := diag.Diagnostic{
		Code: kindCode(c.problem.Kind), Summary: fmt.Sprintf("what a call of %s costs is not known for every call of this node", fields.Quote(t.Name())),
		Detail:  fmt.Sprintf("The catalog says that it costs %s. %s", fields.Quote(excerpt.Bytes(t.Cost.Expr, 80)), fields.Sentence(c.problem.Message)),
		Subject: n.OperationRange(), Context: t.Range, Node: n.ID,
	}
	if c.problem.Witness != nil {
		d.Witness = shown(c.problem.Witness)
	}
	check.Report(d)
}

// price checks a cost for calls with those inputs and outputs.
func (check *checker) price(c *catalog.Cost, in, out *schemas.Schema) priceCheck {
	if !fields.Currencies.Re.MatchString(c.Currency) {
		return priceCheck{problem: &expr.Problem{Message: "it has no currency: " + fields.Currencies.Say}}
	}
	a, err := expr.CompileAmount(c.Expr, scopeOf(c))
	if err != nil {
		return priceCheck{problem: &expr.Problem{Message: err.Error()}}
	}
	source, problems := a.Check(check.typing(scope{args: in, output: out}))
	if len(problems) > 0 {
		return priceCheck{problem: &problems[0]}
	}
	return priceCheck{source: source}
}

// readPrice checks the expression of a cost in a catalog file, for every input and
// output of its operation.
func (check *checker) readPrice(v *syntax.Value, c *catalog.Cost, in, out *pool.Schema, id string) {
	if strings.TrimSpace(v.Text) == "" {
		check.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.Range()})
		return
	}
	errs := check.Errors
	a := check.amount(v, scopeOf(c), id)
	if a == nil {
		if !c.FromOutput && check.Errors > errs && len(check.Found) > 0 {
			if _, err := expr.CompileAmount(v.Text, expr.Charge); err == nil {
				check.Found[len(check.Found)-1].Suggestion = "from_output: true"
			}
		}
		return
	}
	args, output := in.Usable(), out.Usable()
	if args == nil || output == nil {
		return // reported already
	}
	_, problems := a.Check(check.typing(scope{args: args, output: output}))
	for _, p := range problems {
		check.problem(embedded.Point(v, p.Offset), v, p, false, true, id, "")
	}
}

// EstimateOf returns the plan's estimate of what a call costs.
func EstimateOf(n *Node) *plan.Cost {
	if raw, err := plan.Canonical(n.Cost.Any()); err == nil && fields.Number(n.Cost) != nil && n.Cost.Kind == syntax.Number {
		return &plan.Cost{Amount: string(raw), Currency: n.currency}
	}
	return &plan.Cost{Expr: n.estimate, Currency: n.currency}
}

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
		Code: diag.TrustWeaker, Summary: fmt.Sprintf("`cost_estimate: %s` is below what %s costs", excerpt.Bytes(n.Cost.Text, 80), name),
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
				e, t.Cost.Currency, p, fields.Quote(excerpt.Bytes(t.Cost.Expr, 120)))
			d.Witness = shown(args)
			check.Report(d)
			return
		}
	}
	d.Summary = fmt.Sprintf("it is not proved that `cost_estimate` is at least what %s costs", name)
	d.Detail = fmt.Sprintf("By the catalog a call costs %s %s: %s. The estimate is known to be %s. A plan may only reckon with more than the catalog says: give an amount that no call exceeds, or the catalog's own expression.",
		span(least, most), t.Cost.Currency, fields.Quote(excerpt.Bytes(t.Cost.Expr, 120)), span(low, high))
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
