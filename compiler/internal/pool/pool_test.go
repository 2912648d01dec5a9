package pool

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// chain is a schema with a deep chain of definitions, named by n.
func chain(t *testing.T, p *Pool, n int, keyword string) *Schema {
	t.Helper()
	defs := map[string]any{}
	const deep = 200
	for i := range deep {
		d := map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"$ref": fmt.Sprintf("#/defs/d%d", i+1)}}}
		if keyword != "" {
			d[keyword] = true
		}
		defs[fmt.Sprintf("d%d", i)] = d
	}
	defs[fmt.Sprintf("d%d", deep)] = true
	s, err := p.With(map[string]any{"title": fmt.Sprint(n), "$ref": "#/defs/d0", "defs": defs}, len(defs))
	require.NoError(t, err)
	return s
}

// Plain schemas cost what they say; compiling others has a bound.
func TestCompilingIsBounded(t *testing.T) {
	var plain, other Pool
	for i := range 40 {
		require.False(t, plain.Admit(chain(t, &plain, i, "")))
	}
	require.Zero(t, plain.dear)
	compiled, refused := 0, 0
	for i := range 40 {
		s := chain(t, &other, i, "contains")
		if other.Admit(s) {
			compiled += len(s.Raw) * (1 + s.definitions/8)
			continue
		}
		_, err := s.Compile()
		require.ErrorContains(t, err, "need more than the plain keywords")
		refused++
	}
	require.Positive(t, compiled)
	require.LessOrEqual(t, compiled, maxDear)
	require.Positive(t, refused)
}
