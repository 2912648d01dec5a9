package expr_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
)

// Ten thousand different expressions of the usual kinds, as a large plan holds.
func BenchmarkCompileTenThousand(b *testing.B) {
	kinds := []string{
		"value.field%d > 100 && output.status == 'paid'",
		"has(value.k%d) ? value.k : input.limit",
		"input.documents.name%d",
		"value.items%d.filter(i, i.price > 10).map(i, i.name)",
		"value.?a%d.?b.orValue('none')",
	}
	for b.Loop() {
		for i := range 10_000 {
			if _, bad := expr.CompileTemplate("${"+fmt.Sprintf(kinds[i%len(kinds)], i)+"}", expr.Transform); len(bad) > 0 {
				b.Fatal(bad)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/10_000, "µs/expression")
}

func BenchmarkEvalTemplate(b *testing.B) {
	for _, src := range []string{"${value.items}", "${value.n + 1}", "n is ${value.n} of ${input.limit}", "${value.items.filter(i, i.p > 10).map(i, i.t)}"} {
		b.Run(src, func(b *testing.B) {
			tpl, bad := expr.CompileTemplate(src, expr.Transform)
			require.Empty(b, bad)
			v := vars(b, expr.Transform)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tpl.Eval(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The usual expressions of edges are checked in microseconds.
func BenchmarkCheck(b *testing.B) {
	ty := typing(b)
	for _, src := range []string{
		"value.nested.deep", "value.shape.kind", "has(value.note) ? value.note : 'none'", "value.price * 2",
		"value.items.filter(i, has(i.count) && i.count > 3).map(i, i.count * 2)",
	} {
		b.Run(src, func(b *testing.B) {
			tpl, bad := expr.CompileTemplate("${"+src+"}", expr.Transform)
			require.Empty(b, bad)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, problems := tpl.Check(ty); len(problems) > 0 {
					b.Fatal(problems)
				}
			}
		})
	}
}
