package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// visits counts how often the library visits a schema.
type visits struct{ n int }

func (c *visits) Compile(jsonschema.CompilerContext, map[string]interface{}) (jsonschema.ExtSchema, error) {
	return c, nil
}

func (c *visits) Validate(jsonschema.ValidationContext, interface{}) error {
	c.n++
	return nil
}

// drawSchema draws a schema that refers to the definitions d0 to d3, into values
// only, so that it does not loop.
func drawSchema(r *rapid.T, depth int, inside bool) any {
	sub := func(inside bool) any { return drawSchema(r, depth-1, inside) }
	if depth <= 0 {
		if inside && rapid.Bool().Draw(r, "ref") {
			return map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", rapid.IntRange(0, 3).Draw(r, "def"))}
		}
		return rapid.SampledFrom([]any{
			map[string]any{"type": "object"}, map[string]any{"type": "string"}, map[string]any{"const": json.Number("1")},
			map[string]any{"minLength": json.Number("1")}, map[string]any{},
		}).Draw(r, "leaf")
	}
	m := map[string]any{}
	for range rapid.IntRange(1, 3).Draw(r, "keywords") {
		switch rapid.IntRange(0, 13).Draw(r, "keyword") {
		case 0:
			m["allOf"] = []any{sub(inside), sub(inside)}
		case 1:
			m["anyOf"] = []any{sub(inside), sub(inside)}
		case 2:
			m["oneOf"] = []any{sub(inside), sub(inside)}
		case 3:
			m["not"] = sub(inside)
		case 4:
			m["if"], m["then"], m["else"] = sub(inside), sub(inside), sub(inside)
		case 5, 6:
			m["properties"] = map[string]any{"a": sub(true), "b": sub(true)}
		case 7:
			m["patternProperties"] = map[string]any{"a": sub(true), "^": sub(true)}
		case 8:
			m["additionalProperties"] = sub(true)
		case 9:
			m["propertyNames"] = sub(true)
		case 10:
			m["prefixItems"], m["items"] = []any{sub(true)}, sub(true)
		case 11:
			m["contains"] = sub(true)
		case 12:
			m["unevaluatedProperties"], m["unevaluatedItems"] = sub(true), sub(true)
		case 13:
			m["dependentSchemas"] = map[string]any{"a": sub(inside)}
		}
	}
	return m
}

func drawValue(r *rapid.T, depth int) any {
	switch k := rapid.IntRange(0, 5).Draw(r, "kind"); {
	case k < 2 || depth <= 0:
		return rapid.SampledFrom([]any{nil, "", "ab", json.Number("1"), true}).Draw(r, "scalar")
	case k < 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(r, "n") {
			list = append(list, drawValue(r, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(r, "n") {
		object[rapid.SampledFrom([]string{"a", "b", "c", "ab"}).Draw(r, "key")] = drawValue(r, depth-1)
	}
	return object
}

// The work that is computed, and the bound that is known beforehand, are never
// below what the library really does.
func TestWorkIsBoundedFromAbove(t *testing.T) {
	known := 0
	rapid.Check(t, func(r *rapid.T) {
		defs := map[string]any{}
		for i := range 4 {
			defs[fmt.Sprintf("d%d", i)] = drawSchema(r, rapid.IntRange(0, 2).Draw(r, "depth"), false)
		}
		root, ok := drawSchema(r, 2, true).(map[string]any)
		require.True(r, ok)
		root["$defs"] = defs
		raw, err := json.Marshal(root)
		require.NoError(r, err)

		counter := &visits{}
		c := jsonschema.NewCompiler()
		c.RegisterExtension("count", nil, counter)
		require.NoError(r, c.AddResource(base, bytes.NewReader(raw)))
		compiled, err := c.Compile(base)
		require.NoError(r, err)
		g, err := newGraph([]*jsonschema.Schema{compiled}, nil, nil)
		require.NoError(r, err)

		v := drawValue(r, 5)
		sz, err := measure(v)
		require.NoError(r, err)
		_ = compiled.Validate(v)
		w := worker{tally: tally{g: g, times: make([]float64, len(g.nodes))}, left: MaxWork}
		w.walk(v, bag{{g.root, 1}})
		if w.left > 0 && float64(counter.n)*visitWork > MaxWork-w.left {
			r.Fatalf("%s\n%v\nis visited %d times, but bounded by %v", raw, v, counter.n, (MaxWork-w.left)/visitWork)
		}
		if g.bound.known {
			known++
			if most := g.bound.total(sz); float64(counter.n)*visitWork > most || MaxWork-w.left > most {
				r.Fatalf("%s\n%v\nis visited %d times with work %v, but bounded by %v", raw, v, counter.n, MaxWork-w.left, most)
			}
		}
	})
	require.Positive(t, known)
}
