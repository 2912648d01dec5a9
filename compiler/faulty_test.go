package compiler

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// typedWith compiles a plan. set is run before the types pass.
func typedWith(t *testing.T, text []byte, set func(*compilation)) (*plan.Plan, diag.Diagnostics) {
	t.Helper()
	c := newCompilation(Source{Name: "plan.yaml", Text: text}, testCatalog(t), nil)
	return c.run(slices.Insert(slices.Clone(passes), 1, pass{"set", set}))
}

// faulty is a plan in the middle of which some edges do not fit, and one expression
// may fail.
func faulty(n int) []byte {
	text := plangen.Typed(n)
	for _, at := range []int{n / 3, n / 2, n/2 + 1} {
		text = bytes.Replace(text, fmt.Appendf(nil, "when: value < %d}", at), []byte("when: value < 0 || value > 1000000}"), 1)
		text = bytes.Replace(text, fmt.Appendf(nil, "to_node: n%d, to_port: v, edge_type: data, required: true, transform: \"${value + 1}\"", at),
			fmt.Appendf(nil, "to_node: n%d, to_port: v, edge_type: data, required: true, transform: \"${value + 7}\"", at), 1)
	}
	return bytes.Replace(text, fmt.Appendf(nil, "to_node: n%d, to_port: v, edge_type: data, required: true, transform: \"${value + 1}\"", 2*n/3),
		fmt.Appendf(nil, "to_node: n%d, to_port: v, edge_type: data, required: true, transform: \"${1 / value}\"", 2*n/3), 1)
}

// Errors in the middle of a large plan are found, and one of 2,000 nodes gets no
// warnings about its conditions.
func TestFaulty(t *testing.T) {
	_, ds := Compile(Source{Name: "plan.yaml", Text: faulty(120)}, testCatalog(t), nil)
	// Four that do not fit or may fail, and three conditions that never hold.
	require.Len(t, ds, 7, "%s", show(ds))
	_, ds = Compile(Source{Name: "plan.yaml", Text: faulty(2000)}, testCatalog(t), nil)
	require.Len(t, ds, 4, "%s", show(ds))
}
