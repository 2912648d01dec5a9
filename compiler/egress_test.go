package compiler

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
)

// TestEgress: what leaves by a tool of the open world is tainted by the values that it is made of,
// and by the decision which of several values it is: two constants tell the world one bit of what
// decides between them.
func TestEgress(t *testing.T) {
	const source = `{apiVersion: chimera/v1, kind: Plan, name: leaves, version: "1", agent: agent-42,
  input_schema: {type: object, properties: {a: {type: string}}, required: [a]}, output_schema: {type: object},
  nodes: [{id: read, template: files/read_file, with: {path: a}}, {id: search, template: files/search, trust_requirement: manual_review}],
  edges: [EDGES]}`
	// chosen gives the tool one of two constants, as a port of a node says.
	chosen := func(node, port string) string {
		return strings.NewReplacer("NODE", node, "PORT", port).Replace(`
    {from_node: NODE, from_port: PORT, to_node: search, to_port: pattern, edge_type: conditional, required: false, when: "size(value) > 1", transform: "${'yes'}"},
    {from_node: NODE, from_port: PORT, to_node: search, to_port: pattern, edge_type: conditional, required: false, when: otherwise, transform: "${'no'}"}`)
	}
	for name, c := range map[string]struct {
		edges string
		says  string
	}{
		"a tainted value":                    {`{from_node: read, from_port: content, to_node: search, to_port: pattern, edge_type: data, required: true, transform: "n${size(value)}"}`, "read.content -> search.pattern"},
		"a tainted choice between constants": {chosen("read", "content"), "read.content -> search.pattern"},
		"a choice by the input":              {chosen("$input", "a"), ""},
		"a constant, once it was read":       {`{from_node: read, from_port: content, to_node: search, to_port: pattern, edge_type: data, required: true, transform: "${'yes'}"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, ds := Compile(Source{Name: "plan.yaml", Text: []byte(strings.Replace(source, "EDGES", c.edges, 1))}, testCatalog(t), testPolicy(t))
			if c.says == "" {
				require.False(t, ds.HasErrors(), show(ds))
				return
			}
			require.Len(t, ds, 1, show(ds))
			require.Equal(t, diag.EffectEgress, ds[0].Code)
			require.Equal(t, "search", ds[0].Node)
			require.Contains(t, ds[0].Detail, c.says)
		})
	}
}
