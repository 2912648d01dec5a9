package compiler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/lengthy"
)

// spent compiles a plan that is made to be expensive, and returns the findings and
// what is left of the file's budget.
func spent(t *testing.T, text string) (diag.Diagnostics, *compilation) {
	t.Helper()
	c := newCompilation(Source{Name: "plan.yaml", Text: []byte(text)}, testCatalog(t), nil)
	_, ds := c.run(passes)
	return ds, c
}

// among counts findings whose detail holds a text.
func among(ds diag.Diagnostics, text string) (n int) {
	for _, d := range ds {
		if strings.Contains(d.Detail, text) {
			n++
		}
	}
	return n
}

// Many proofs share the steps of the file, and each has few once enough errors have
// been found.
func TestProofsShareSteps(t *testing.T) {
	const nodes = 160
	ds, c := spent(t, plainHead+"nodes:\n"+repeated(nodes, "  - {id: n%, template: text/count, input_schema: {type: object, minProperties: %, allOf: ["+choices24()+"]}}"))
	require.NotEmpty(t, ds)
	require.LessOrEqual(t, c.prover.Proofs, c.prover.Limit)
	require.Less(t, c.prover.Proofs, proof.ManyErrors*containment.DefaultSteps+3*nodes*proof.FewSteps)

	// A plan without errors has all the steps that it needs.
	ds, c = spent(t, plainHead+"nodes:\n"+repeated(40, "  - {id: n%, template: engine/pass, input_schema: {type: object, minProperties: %, allOf: ["+choices24()+"]}}"))
	require.Empty(t, among(ds, "after"), show(ds[:min(len(ds), 3)]))
	require.Less(t, c.prover.Proofs, c.prover.Limit)
}

// The search for counterexamples and edits ends after so many tries, and a
// finding without one says so.
func TestSearchEnds(t *testing.T) {
	const edges = 300
	ds, c := spent(t, plainHead+"nodes:\n"+repeated(edges, "  - {id: n%, template: engine/pass, input_schema: {type: object, properties: {x: {type: integer, maximum: %}}, required: [x]}, output_schema: {type: object, properties: {y: {type: integer, minimum: 0, maximum: %}}, required: [y]}}")+
		"edges:\n"+repeated(edges-1, fmt.Sprintf("  - {from_node: n%%, from_port: y, to_node: n%d, to_port: x, edge_type: data, required: false, transform: \"${value + size(input.x) - %%}\"}", edges-1)))
	require.Greater(t, among(ds, "was looked for that comes out so: a file has 8000 tries"), edges/2)
	require.Positive(t, among(ds, "was found that comes out so"))
	require.LessOrEqual(t, c.prover.Proofs, c.prover.Limit)
}

// Many schemas that share one deep chain of definitions cost little if they are
// plain; others have a bound.
func TestChainsAreBounded(t *testing.T) {
	chain := func(keyword string, nodes int) string {
		var b strings.Builder
		b.WriteString(plainHead + "defs:\n")
		for i := range lint.MaxUses - 6 {
			fmt.Fprintf(&b, "  d%d: {type: object, properties: {x: {$ref: '#/defs/d%d'}%s}}\n", i, i+1, keyword)
		}
		fmt.Fprintf(&b, "  d%d: {}\nnodes:\n", lint.MaxUses-6)
		return b.String() + repeated(nodes, "  - {id: n%, template: engine/pass, input_schema: {type: object, properties: {p%: {$ref: '#/defs/d0'}}}}")
	}
	ds, _ := spent(t, chain("", 40))
	require.Empty(t, ds)
	ds, _ = spent(t, chain(", y: {contains: true}", 40))
	require.Positive(t, among(ds, "need more than the plain keywords"), show(ds))
	for _, d := range ds {
		require.NotEmpty(t, d.Subject.File)
	}
}

// When no more findings are listed, nothing more is proved.
func TestProofsEnd(t *testing.T) {
	lengthy.Skip(t)
	const edges = lint.MaxFindings + 1000
	text := func(n int) string {
		return strings.Replace(plainHead, "x: {type: string}", "x: {type: string}, y: {type: integer}", 1) +
			"nodes:\n" + repeated(n, "  - {id: n%, template: engine/pass, input_schema: {type: object, properties: {x: {type: integer, maximum: %}}}}") +
			"edges:\n" + repeated(n, "  - {from_node: $input, from_port: x, to_node: n%, to_port: x, edge_type: data, required: true}")
	}
	ds, all := spent(t, text(edges))
	require.Len(t, ds, lint.MaxFindings+1)
	_, some := spent(t, text(lint.MaxFindings))
	require.InEpsilon(t, some.prover.Proofs, all.prover.Proofs, 0.1)
}
