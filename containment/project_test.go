package containment_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// anyOf is the union of schemas.
func anyOf(all []*schemas.Schema) *schemas.Schema {
	if len(all) == 0 {
		return schemas.False()
	}
	return schemas.Make(schemas.Keywords{Any: all})
}

func TestProject(t *testing.T) {
	for _, c := range []struct {
		schema, names, want string
		ways                int
	}{
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, "a", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, 1},
		{`{"properties":{"a":{"type":"string"}},"required":["a"],"minProperties":1}`, "a b", `{"type":"object","properties":{"a":{"type":"string"},"b":true},"required":["a"],"additionalProperties":false}`, 1},
		{discriminated, "kind x", `{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"],"additionalProperties":false}`, 1},
		{`{"type":"object","anyOf":[{"properties":{"k":{"const":1},"v":{"type":"string"}},"required":["k","v"]},{"properties":{"k":{"const":2}},"required":["k"]}]}`, "k v",
			`{"type":"object","additionalProperties":false,"required":["k"],"properties":{"k":true,"v":true},"anyOf":[{"properties":{"k":{"const":1},"v":{"type":"string"}},"required":["v"]},{"properties":{"k":{"const":2}}}]}`, 2},
		{`{"type":"object","dependentRequired":{"a":["b"]}}`, "a b", `{"type":"object","properties":{"a":true,"b":true},"additionalProperties":false,"dependentRequired":{"a":["b"]}}`, 2},
		{`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]}`, "a b", `{"type":"object","properties":{"a":true,"b":true},"additionalProperties":false,"oneOf":[{"required":["a"]},{"required":["b"]}]}`, 2},
		{`{"type":"object","maxProperties":1,"required":["c"]}`, "a b", `{"const":{}}`, 1},
		{`{"enum":[{"a":1,"b":2,"c":3},{"a":1,"b":2},{"a":2},[],7]}`, "a b", `{"enum":[{"a":1,"b":2},{"a":2}]}`, 2},
		{`{"type":"string"}`, "a", `false`, 0},
		{`false`, "a", `false`, 0},
		{`true`, "a", `{"type":"object","properties":{"a":true},"additionalProperties":false}`, 1},
		{`{"$dynamicAnchor":"n","type":"object","properties":{"a":{"$dynamicRef":"#n"}},"if":true,"then":true}`, "a", `{"type":"object","properties":{"a":true},"additionalProperties":false}`, 1},
	} {
		ways := containment.Project(compile(t, c.schema), strings.Fields(c.names), 8, containment.Options{})
		require.NotNil(t, ways, c.schema)
		require.Len(t, ways, c.ways, c.schema)
		equal(t, c.want, anyOf(ways), c.schema)
	}
}

// Beyond the bounds nothing is said.
func TestProjectBounded(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,{"required":["a"],"properties":{"a":{"const":%d}}}`, i)
		}
		return `{"type":"object","anyOf":[` + b.String()[1:] + `]}`
	}
	require.Len(t, containment.Project(compile(t, many(8)), []string{"a"}, 8, containment.Options{}), 8)
	require.Nil(t, containment.Project(compile(t, many(9)), []string{"a"}, 8, containment.Options{}))
	require.Nil(t, containment.Project(compile(t, many(8)), []string{"a"}, 8, containment.Options{Steps: 5}))
	require.Len(t, containment.Project(compile(t, many(9)), []string{"b"}, 8, containment.Options{}), 1, "what the names do not see is one")
	spent := 0
	containment.Project(compile(t, many(8)), []string{"a"}, 8, containment.Options{Spent: &spent})
	require.Positive(t, spent)
}

// cut is what an object has under names.
func cut(v any, names []string) (any, bool) {
	m, ok := v.(map[string]any)
	out := map[string]any{}
	for _, name := range names {
		if e, there := m[name]; there {
			out[name] = e
		}
	}
	return out, ok
}

// TestProjectHoldsAll: what an object has under names is a value of one of the
// ways, whatever the schema.
func TestProjectHoldsAll(t *testing.T) {
	seen, split := 0, 0
	for seed := range times(1000, 20_000) {
		d := shuffle(seed)
		_, l, ok := d.related(1)
		if !ok {
			continue
		}
		names := growNames[:1+d(len(growNames)-1)]
		ways := containment.Project(l[0].compiled, names, 64, containment.Options{})
		if ways == nil {
			continue
		}
		s := d.sampler(l[0].doc)
		for range 30 {
			v := s.next()
			if l[0].compiled.Validate(v) != nil {
				continue
			}
			part, object := cut(v, names)
			if !object {
				continue
			}
			seen++
			if len(ways) > 1 {
				split++
			}
			require.NoError(t, anyOf(ways).Validate(part), "seed %d: %s of %s under %v", seed, text(v), text(l[0].doc), names)
		}
	}
	t.Logf("%d objects, %d of them of schemas with alternatives", seen, split)
	require.Positive(t, split)
}
