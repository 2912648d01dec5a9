package compiler

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// typedWith compiles a plan in blocks of a size on some processors; 0 is no
// blocks. set is run before the types pass.
func typedWith(t *testing.T, text []byte, size, processors int, set func(*unit)) (*plan.Plan, diag.Diagnostics, *unit) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	u := newUnit(Source{Name: "plan.yaml", Text: text}, testCatalog(t), nil)
	if u.blockEdges = size; size == 0 {
		u.blockEdges = MaxEdges
	}
	p, ds := u.compile(slices.Insert(slices.Clone(passes), 1, pass{"set", set}))
	return p, ds, u
}

func nothing(*unit) {}

// faulty is a plan in which some edges in the midst do not fit, and one
// expression may fail.
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

// What is said of a plan, and the plan itself, are the same whether its edges
// are typed one after the other or in blocks, on however many processors.
func TestBlocks(t *testing.T) {
	const n = 120
	whole, ds, one := typedWith(t, plangen.Typed(n), 0, 1, nothing)
	require.Empty(t, ds)
	raw, err := whole.Encode()
	require.NoError(t, err)
	_, wrong, _ := typedWith(t, faulty(n), 0, 1, nothing)
	// Four that do not fit or may fail, and three conditions that never hold.
	require.Len(t, wrong, 7, "%s", show(wrong))
	_, many, _ := typedWith(t, faulty(maxWarned), 0, 1, nothing)
	require.Len(t, many, 4, "the conditions of a large plan are not looked at for warnings: %s", show(many))
	for _, size := range []int{16, 50} {
		for _, processors := range []int{1, 4} {
			p, ds, u := typedWith(t, plangen.Typed(n), size, processors, nothing)
			require.Empty(t, ds)
			again, err := p.Encode()
			require.NoError(t, err)
			require.Equal(t, string(raw), string(again))
			// Where no two edges are alike, blocks take about as much work.
			require.InEpsilon(t, one.proofSteps, u.proofSteps, 0.2)
			_, ds, _ = typedWith(t, faulty(n), size, processors, nothing)
			require.Equal(t, wrong, ds)
		}
	}
}

// Where the steps of a file run out, they do so at the same edge on any number
// of processors.
func TestBlocksShareSteps(t *testing.T) {
	const n = 60
	text := bytes.ReplaceAll(plangen.Typed(n), []byte("${value + 1}"), []byte("${type(output.v) == int && output.v >= 0 && string(output.v) != '' ? output.v + 1 : 0}"))
	_, ds, all := typedWith(t, text, 16, 2, nothing)
	require.Empty(t, ds)
	limit := all.proofLimit()
	require.Less(t, all.checkSteps, limit)
	for name, set := range map[string]func(*unit){
		"checks": func(u *unit) { u.checkSteps = (limit - all.checkSteps) / 2 },
		"proofs": func(u *unit) { u.proofSteps = limit - all.proofSteps/2 },
	} {
		_, want, _ := typedWith(t, text, 16, 1, set)
		require.Greater(t, len(want), n/2, name)
		require.Less(t, len(want), 2*n, name)
		for _, processors := range []int{2, 8} {
			_, ds, _ := typedWith(t, text, 16, processors, set)
			require.Equal(t, want, ds, name)
		}
	}
}
