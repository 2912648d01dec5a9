package compiler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
)

// oneEdge is a plan whose edge from $input.x names an adapter.
func oneEdge(source, adapter, target string) Source {
	return Source{Name: "plan.yaml", Text: fmt.Appendf(nil, `apiVersion: chimera/v1
kind: Plan
name: p
version: "1"
agent: a
input_schema: {type: object, properties: {x: %s}, required: [x]}
output_schema: {type: object, properties: {y: %s}, required: [y]}
nodes: [{id: n, template: engine/pass}]
edges:
  - {from_node: $input, from_port: x, to_node: $output, to_port: y, edge_type: data, required: true, transform: %s}
`, source, target, adapter)}
}

// TestAdapterOfCode: a catalog made by code may hold anything; what was not read
// from a file is proved when it is used.
func TestAdapterOfCode(t *testing.T) {
	object := []byte(`{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}}}`)
	for _, tt := range []struct {
		adapter catalog.Adapter
		code    diag.Code
		say     string
	}{
		{catalog.Adapter{}, diag.TypeSchema, "input_schema"},
		{catalog.Adapter{InputSchema: []byte(`{`)}, diag.TypeSchema, "input_schema"},
		{catalog.Adapter{InputSchema: object, OutputSchema: []byte(`{"type":7}`)}, diag.TypeSchema, "output_schema"},
		{catalog.Adapter{InputSchema: object, OutputSchema: object}, diag.TypeExpr, "not JSON"},
		{catalog.Adapter{InputSchema: object, OutputSchema: object, Transform: []byte(`"${input}"`)}, diag.TypeExpr, "does not compile"},
		{catalog.Adapter{InputSchema: object, OutputSchema: object, Transform: []byte(`"${value.n}"`)}, diag.TypeExprMayFail, "may be missing"},
		{catalog.Adapter{InputSchema: object, OutputSchema: object, Transform: []byte(`{"n":"${has(value.n) ? value.n + 1 : 0}"}`)}, diag.TypeUnknown, "not proved"},
	} {
		tt.adapter.ID = "mine"
		cat, ds := engineCatalog().Merge(&catalog.Catalog{Adapters: []catalog.Adapter{tt.adapter}})
		require.Empty(t, ds)
		p, ds := Compile(oneEdge(string(object), "mine", "true"), cat, nil)
		require.Nil(t, p)
		require.Len(t, ds, 1, show(ds))
		require.Equal(t, tt.code, ds[0].Code, show(ds))
		require.Contains(t, ds[0].Detail, tt.say)
	}
}

// TestAdapterPinned: a plan contains the transform itself, so its digest changes
// with the adapter, and with nothing else of the catalog.
func TestAdapterPinned(t *testing.T) {
	compile := func(adapters ...catalog.Adapter) string {
		cat, ds := engineCatalog().Merge(&catalog.Catalog{Adapters: adapters})
		require.Empty(t, ds)
		p, ds := Compile(oneEdge("{type: string}", "a", "true"), cat, nil)
		require.Empty(t, show(ds))
		return string(encode(t, p))
	}
	text := []byte(`{"type":"string"}`)
	first := catalog.Adapter{ID: "a", InputSchema: text, OutputSchema: text, Transform: []byte(`"${value}!"`)}
	want := compile(first)
	require.Equal(t, want, compile(catalog.Adapter{ID: "b"}, first))
	described := first
	described.Description, described.OutputSchema = "other words", []byte(`true`)
	require.Equal(t, want, compile(described), "what it promises is no part of the plan")
	first.Transform = []byte(`"${value}?"`)
	require.NotEqual(t, want, compile(first))
}

// TestAdapterTaint: an adapter removes no taint.
func TestAdapterTaint(t *testing.T) {
	src := func(transform string) Source {
		return Source{Name: "plan.yaml", Text: fmt.Appendf(nil, `apiVersion: chimera/v1
kind: Plan
name: p
version: "1"
agent: a
allow: [pure, committing]
input_schema: {type: object}
output_schema: {type: object}
nodes:
  - {id: draft, template: text/draft, with: {prompt: go}}
  - {id: pay, template: engine/pass, effect_class: committing, commit_policy: {}, input_schema: {type: object, properties: {x: true}}}
edges:
  - {from_node: draft, from_port: text, to_node: pay, to_port: x, edge_type: data, required: true, transform: %s}
`, transform)}
	}
	text := []byte(`{"type":"string"}`)
	cat, ds := testCatalog(t).Merge(&catalog.Catalog{Adapters: []catalog.Adapter{
		{ID: "same", InputSchema: text, OutputSchema: text, Transform: []byte(`"${value}"`)},
		{ID: "fixed", InputSchema: text, OutputSchema: text, Transform: []byte(`"a constant"`)},
	}})
	require.Empty(t, ds)
	tainted := func(transform string) bool {
		_, ds := Check(src(transform), cat, nil)
		for _, d := range ds {
			if d.Code == diag.EffectTainted {
				return true
			}
		}
		return false
	}
	require.True(t, tainted(`"${value}"`))
	require.True(t, tainted("same"))
	require.Equal(t, tainted(`["a constant"]`), tainted("fixed"))
}
