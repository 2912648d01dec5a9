package compiler

import (
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/compiler/internal/pool"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// priceOf finds what was found of a cost of the catalog, which is asked once for
// nodes with the same schemas.
type priceOf struct {
	cost          *catalog.Cost
	input, output *schemas.Schema
}

type priceCheck struct {
	source  string
	problem *expr.Problem
}

// typeCost checks what the plan and the catalog say that a call costs.
func (u *unit) typeCost(doc *typedDocument, n *typedNode) {
	if n.template != nil && n.template.Cost != nil {
		u.typePrice(n)
	}
	if n.cost == nil {
		return
	}
	u.typeCurrency(doc, n)
	if n.cost.Kind == syntax.String {
		u.typeEstimate(doc, n)
	}
}

// typeCurrency finds the currency of an estimate: the catalog's, where it prices
// the operation, else the plan's.
func (u *unit) typeCurrency(doc *typedDocument, n *typedNode) {
	d := diag.Diagnostic{Code: diag.PlanSchema, Subject: n.cost.Range(), Node: n.id}
	of := ""
	if n.template != nil && n.template.Cost != nil {
		of = n.template.Cost.Currency
	}
	switch {
	case of == "" && doc.currency == nil:
		if doc.at.Get("currency") != nil {
			return // refused already
		}
		d.Summary = "`cost_estimate` is an amount without a currency"
		d.Detail = "It is in the currency in which the catalog prices the operation, else in the plan's `currency`, and neither is given."
		d.Suggestion = "currency: USD"
		u.Report(d)
		return
	case of != "" && doc.currency != nil && of != doc.currency.Text:
		d.Summary = fmt.Sprintf("`cost_estimate` would be in %s, and the catalog prices %s in %s", doc.currency.Text, fields.Quote(n.template.Name()), of)
		d.Detail = "Amounts of different currencies are never compared or added. Leave the estimate to the catalog."
		d.Context, d.Suggestion = doc.currency.Range(), "leave cost_estimate out"
		u.Report(d)
		return
	case of != "":
		n.currency = of
	default:
		n.currency = doc.currency.Text
	}
}

// typeEstimate checks the plan's own word on what a call costs.
func (u *unit) typeEstimate(doc *typedDocument, n *typedNode) {
	if strings.TrimSpace(n.cost.Text) == "" {
		u.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: n.cost.Range(), Node: n.id})
		return
	}
	a := u.amount(n.cost, expr.Estimate, n.id)
	s := sight{args: n.input.usable(), input: doc.input.usable()}
	if a == nil || s.args == nil || s.input == nil {
		return
	}
	var problems []expr.Problem
	n.estimate, problems = a.Check(u.typing(s))
	for _, p := range problems {
		u.problem(u.Point(n.cost, p.Offset), n.cost.Range(), p, false, true, n.id, "")
	}
}

// amount compiles an expression that gives money, where it stands, or gives nil.
func (u *unit) amount(v *syntax.Value, scope expr.Scope, node string) *expr.Amount {
	if !u.Quoted(v, node, "") {
		return nil
	}
	a, err := expr.CompileAmount(v.Text, scope)
	if err == nil {
		return a
	}
	where := &expr.Error{Message: err.Error()}
	errors.As(err, &where)
	u.Refuse(u.Point(v, where.Offset), v.Range(), *where, scope, "", node, "")
	return nil
}

// scope is what the expression of a cost may read.
func scopeOf(c *catalog.Cost) expr.Scope {
	if c.FromOutput {
		return expr.Charge
	}
	return expr.Price
}

// typePrice checks the catalog's word on what a call costs for what this node
// takes and returns. A catalog file was checked when it was read, for all that
// its operation takes and returns; a node may return less, but a catalog may
// also be made by code.
func (u *unit) typePrice(n *typedNode) {
	t := n.template
	in, out := n.input.usable(), n.output.usable()
	if in == nil || out == nil {
		return
	}
	key := priceOf{t.Cost, in, nil}
	if t.Cost.FromOutput {
		key.output = out
	}
	c, known := u.prices[key]
	if !known {
		c = u.price(t.Cost, in, out)
		u.prices[key] = c
	}
	n.price = c.source
	if c.problem == nil {
		return
	}
	d := diag.Diagnostic{
		Code: kindCode(c.problem.Kind), Summary: fmt.Sprintf("what a call of %s costs is not known for every call of this node", fields.Quote(t.Name())),
		Detail:  fmt.Sprintf("The catalog says that it costs %s. %s", fields.Quote(fields.Clip(t.Cost.Expr, 80)), fields.Sentence(c.problem.Message)),
		Subject: n.operationRange(), Context: t.Range, Node: n.id,
	}
	if c.problem.Witness != nil {
		d.Witness = shown(c.problem.Witness)
	}
	u.Report(d)
}

// price checks a cost for calls with such inputs and outputs.
func (u *unit) price(c *catalog.Cost, in, out *schemas.Schema) priceCheck {
	if !fields.Currencies.Re.MatchString(c.Currency) {
		return priceCheck{problem: &expr.Problem{Message: "it has no currency: " + fields.Currencies.Say}}
	}
	a, err := expr.CompileAmount(c.Expr, scopeOf(c))
	if err != nil {
		return priceCheck{problem: &expr.Problem{Message: err.Error()}}
	}
	source, problems := a.Check(u.typing(sight{args: in, output: out}))
	if len(problems) > 0 {
		return priceCheck{problem: &problems[0]}
	}
	return priceCheck{source: source}
}

// readPrice checks the expression of a cost where it stands in a catalog, for
// all that its operation takes and returns.
func (u *unit) readPrice(v *syntax.Value, c *catalog.Cost, in, out *pool.Schema, id string) {
	if strings.TrimSpace(v.Text) == "" {
		u.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.Range()})
		return
	}
	errs := u.Errors
	a := u.amount(v, scopeOf(c), id)
	if a == nil {
		if !c.FromOutput && u.Errors > errs && len(u.Found) > 0 {
			if _, err := expr.CompileAmount(v.Text, expr.Charge); err == nil {
				u.Found[len(u.Found)-1].Suggestion = "from_output: true"
			}
		}
		return
	}
	if in == nil || out == nil {
		return // reported already
	}
	args, err := in.Compile()
	if err != nil {
		return
	}
	output, err := out.Compile()
	if err != nil {
		return
	}
	_, problems := a.Check(u.typing(sight{args: args, output: output}))
	for _, p := range problems {
		u.problem(u.Point(v, p.Offset), v.Range(), p, false, true, id, "")
	}
}

// estimateOf is the plan's own word on the price of a call.
func estimateOf(n *typedNode) *plan.Cost {
	if raw, err := plan.Canonical(n.cost.Any()); err == nil && fields.Number(n.cost) != nil && n.cost.Kind == syntax.Number {
		return &plan.Cost{Amount: string(raw), Currency: n.currency}
	}
	return &plan.Cost{Expr: n.estimate, Currency: n.currency}
}
