package expr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/expr"
)

// A judgement gives what Check and Narrow give one after the other, for less work.
func TestJudge(t *testing.T) {
	for _, src := range []string{"value.small < 5", "has(value.note) && size(value.note) > 3", "value.flag", "value.either == 3", "!(value.price >= 1.5)", "value.note == 'a'"} {
		p, err := expr.CompilePredicate(src, expr.When)
		require.NoError(t, err, src)
		apart, together := 100_000, 100_000
		ty := typing(t)
		ty.Work = &apart
		source, problems := p.Check(ty)
		yes, no := p.Narrow(ty, true), p.Narrow(ty, false)

		ty.Work = &together
		x := p.Judge(ty)
		source2, problems2 := x.Check()
		require.Equal(t, source, source2, src)
		require.Equal(t, problems, problems2, src)
		for _, pair := range []struct{ a, b expr.Typing }{{yes, x.Narrow(true)}, {no, x.Narrow(false)}} {
			for name := range pair.a.Types {
				for _, way := range [][2]expr.Typing{{pair.a, pair.b}, {pair.b, pair.a}} {
					r := containment.Prove(way[0].Types[name], way[1].Types[name], containment.Options{})
					require.Equal(t, containment.Proved, r.Verdict, "%s: %s: %s", src, name, r.Reason)
				}
			}
			require.Len(t, pair.b.Types, len(pair.a.Types), src)
		}
		require.GreaterOrEqual(t, together, apart, src)
	}
}
