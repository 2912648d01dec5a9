package compiler

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

const costly = `apiVersion: chimera/v1
kind: Plan
name: costs
version: "1"
agent: payer
currency: EUR
input_schema: {type: object, properties: {rate: {type: number, minimum: 0, maximum: 10}}, required: [rate]}
output_schema: {type: object}
nodes:
  - {id: a, template: engine/pass, input_schema: &n {type: object, properties: {n: {type: number, minimum: 0, maximum: 9}}, required: [n]}, with: {n: 3}, cost_estimate: "args.n * 2 > 5 ? input.rate : 0.5"}
  - {id: b, template: meter/bill, with: {units: 3}, cost_estimate: 1.50}
  - {id: c, template: engine/pass, cost_estimate: "'12.50'"}
`

// TestCostsAreKept: the plan keeps the checked text of costs, with the conversions
// of their conditions, and amounts as they are written.
func TestCostsAreKept(t *testing.T) {
	src := Source{Name: "plan.yaml", Text: []byte(costly)}
	_, ds := Check(src, testCatalog(t), nil)
	require.Len(t, ds, 1, show(ds))
	require.Equal(t, diag.PlanSchema, ds[0].Code, "EUR and USD do not mix")
	src.Text = []byte(strings.Replace(costly, "currency: EUR", "currency: USD", 1))
	p, ds := Check(src, testCatalog(t), nil)
	require.Empty(t, show(ds))
	require.Equal(t, &plan.Cost{Expr: "double(args.n) * double(2) > 5 ? input.rate : 0.5", Currency: "USD"}, p.Nodes[1].Estimate)
	require.Nil(t, p.Nodes[1].Cost)
	require.Equal(t, &plan.Cost{Amount: "1.50", Currency: "USD"}, p.Nodes[2].Estimate)
	require.Equal(t, &plan.Cost{Expr: "args.units == 0 ? '0' : output.cost", Currency: "USD", FromOutput: true}, p.Nodes[2].Cost)
	require.Equal(t, &plan.Cost{Expr: "'12.50'", Currency: "USD"}, p.Nodes[3].Estimate)
}

// TestCostsOfCatalogsMadeByCode: what no catalog file has checked is checked at
// the node that calls it.
func TestCostsOfCatalogsMadeByCode(t *testing.T) {
	src := Source{Name: "plan.yaml", Text: []byte(`apiVersion: chimera/v1
kind: Plan
name: costs
version: "1"
agent: payer
input_schema: {type: object}
output_schema: {type: object}
nodes:
  - {id: a, template: made/here}
`)}
	for _, c := range []struct {
		cost catalog.Cost
		code diag.Code
		say  string
	}{
		{catalog.Cost{Expr: "1", Currency: "USD"}, "", ""},
		{catalog.Cost{Expr: "output.cost", Currency: "USD", FromOutput: true}, "", ""},
		{catalog.Cost{Expr: "1"}, diag.TypeExpr, "no currency"},
		{catalog.Cost{Expr: "", Currency: "USD"}, diag.TypeExpr, "empty"},
		{catalog.Cost{Expr: "1 +", Currency: "USD"}, diag.TypeExpr, "not complete"},
		{catalog.Cost{Expr: "output.cost", Currency: "USD"}, diag.TypeExpr, "Undeclared"},
		{catalog.Cost{Expr: "args.x", Currency: "USD"}, diag.TypeExprMayFail, "args.x may be"},
		{catalog.Cost{Expr: "output.cost * 1.5", Currency: "USD", FromOutput: true}, diag.TypeExpr, "doubles"},
	} {
		cat := &catalog.Catalog{Templates: []catalog.Template{{
			ProviderType: plan.Skill, Provider: "made", Operation: "here", Mode: plan.Deter, Effect: plan.Pure, Trust: plan.AllowAuto, Status: plan.AllowAuto,
			InProcess: true, InputSchema: json.RawMessage(`{"type": "object"}`), Cost: &c.cost,
			OutputSchema: json.RawMessage(`{"type": "object", "properties": {"cost": {"type": "number", "minimum": 0, "maximum": 9}}, "required": ["cost"]}`),
		}}}
		of := src
		if c.cost.FromOutput {
			of.Text = bytes.ReplaceAll(src.Text, []byte("made/here}"), []byte("made/here, cost_estimate: 99}"))
		}
		p, ds := Check(of, cat, nil)
		if c.code == "" {
			require.Empty(t, show(ds))
			require.Equal(t, c.cost.Expr, p.Nodes[1].Cost.Expr)
			continue
		}
		require.Len(t, ds, 1, show(ds))
		require.Equal(t, c.code, ds[0].Code)
		require.Contains(t, ds[0].Detail, c.say)
		require.Equal(t, "made/here", subject(src.Text, ds[0].Subject))
	}
}
