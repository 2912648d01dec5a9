package expr_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
)

func TestExplain(t *testing.T) {
	vars := expr.Vars{"action": map[string]any{"n": json.Number("3"), "to": []any{"a", "bc"}, "none": nil}}
	for src, want := range map[string][]string{
		`action.n > 2`:                  {"0 action.n > 2 = true", "1 action.n = 3"},
		`action.ok`:                     {"0 action.ok: no such key: ok"},
		`has(action.m) && action.m`:     {"0 has(action.m) && action.m = false", "1 has(action.m) = false", "1 action.m: no such key: m"},
		`action.to.all(x, size(x) > 1)`: {"0 action.to.all(x, size(x) > 1) = false", "1 action.to = [a bc]"},
		`action.n in [1, action.n]`:     {"0 action.n in [1, action.n] = true", "1 action.n = 3", "1 action.n = 3"},
		`1 / (action.n - 3) > 0`:        {"0 1 / (action.n - 3) > 0: division by zero", "1 1 / (action.n - 3): division by zero", "2 action.n - 3 = 0", "3 action.n = 3"},
		`true`:                          nil,
	} {
		p, err := expr.CompilePredicate(src, expr.Action)
		require.NoError(t, err, src)
		var got []string
		for _, part := range p.Explain(vars) {
			if part.Err != nil {
				got = append(got, fmt.Sprintf("%d %s: %v", part.Depth, part.Text, part.Err))
			} else {
				got = append(got, fmt.Sprintf("%d %s = %v", part.Depth, part.Text, part.Value))
			}
		}
		require.Equal(t, want, got, src)
	}
}
