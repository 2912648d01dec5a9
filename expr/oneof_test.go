package expr_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
)

// TestOneOf: a predicate is false, and does not fail, for every text that OneOf does
// not name.
func TestOneOf(t *testing.T) {
	const op = "action.operation"
	for src, want := range map[string][]string{
		op + ` == "a"`:                      {"a"},
		`"a" == ` + op:                      {"a"},
		op + ` in ["b", "a", "b"]`:          {"a", "b"},
		op + ` in []`:                       nil,
		op + ` == "a" && action.x > 1`:      {"a"},
		`action.x > 1 && ` + op + ` == "a"`: {"a"},
		op + ` in ["a", "b"] && ` + op + ` != "a" && ` + op + ` in ["b", "c"]`:           {"b"},
		op + ` == "a" || ` + op + ` == "b" && action.x > 1`:                              {"a", "b"},
		`(` + op + ` == "a" && action.x > 1) || (` + op + ` == "b" && 1 / action.y > 0)`: {"a", "b"},
	} {
		p, err := expr.CompilePredicate(src, expr.Action)
		require.NoError(t, err, src)
		got, ok := p.OneOf("action", "operation")
		require.True(t, ok, src)
		require.Equal(t, want, got, src)
		for _, text := range []string{"a", "b", "c", "d", ""} {
			if slices.Contains(got, text) {
				continue
			}
			holds, err := p.EvalBool(expr.Vars{"action": map[string]any{"operation": text}})
			require.NoError(t, err, "%s for %q", src, text)
			require.False(t, holds, "%s for %q", src, text)
		}
	}
	for _, src := range []string{
		`true`, `action.ok`, op + ` != "a"`, op + ` == "a" || action.x > 1`, `!(` + op + ` == "a")`, op + ` == action.x`, op + ` in action.all`,
		op + ` in ["a", action.x]`, `action.agent == "a"`, op + ` == "a" ? true : action.x`, `has(action.operation)`, `action.list.exists(action, ` + op + ` == "a")`,
		`action.x.operation == "a"`, op + `.startsWith("a")`,
	} {
		p, err := expr.CompilePredicate(src, expr.Action)
		require.NoError(t, err, src)
		_, ok := p.OneOf("action", "operation")
		require.False(t, ok, src)
	}
}
