package compiler

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/plangen"
)

// shapes are the generated plans, by name.
var shapes = []struct {
	name string
	make func(n int) []byte
}{
	{"chain", plangen.Chain},
	{"fan", plangen.Fan},
	{"layered", func(n int) []byte { return plangen.Layered(n, 32, 1) }},
	{"typed", plangen.Typed},
	{"orders", plangen.Orders},
}

func TestGenerated(t *testing.T) {
	for _, shape := range shapes {
		for _, n := range []int{1, 2, 3, 50, 2000} {
			name := fmt.Sprintf("%s-%d", shape.name, n)
			text := shape.make(n)
			require.Equal(t, string(text), string(shape.make(n)), name)
			p := mustCompile(t, name, text)
			require.Len(t, p.Nodes, n+2, name)
		}
	}
	for seed := range uint64(50) {
		p := mustCompile(t, "layered", plangen.Layered(60, 6, seed))
		require.Len(t, p.Nodes, 62)
	}
}

// BenchmarkCompile measures a whole compilation, from the text to the compiled
// plan.
func BenchmarkCompile(b *testing.B) {
	cat := testCatalog(b)
	for _, shape := range shapes {
		for _, n := range []int{100, 1000, 10_000} {
			text := shape.make(n)
			b.Run(fmt.Sprintf("%s/%d", shape.name, n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					p, ds := Compile(Source{Name: "plan.yaml", Text: text}, cat, nil)
					if p == nil {
						b.Fatal(show(ds))
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/node")
			})
		}
	}
}
