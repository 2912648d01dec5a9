package containment_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

func compile(t *testing.T, text string) *schemas.Schema {
	s, err := schemas.Compile([]byte(text))
	require.NoError(t, err, text)
	return s
}

// equal proves that two schemas have the same values.
func equal(t *testing.T, want string, got *schemas.Schema, about string) {
	w := compile(t, want)
	for _, r := range []containment.Result{
		containment.Prove(w, got, containment.Options{}), containment.Prove(got, w, containment.Options{}),
	} {
		require.Equal(t, containment.Proved, r.Verdict, "%s: %s %s", about, r.JSON, r.Reason)
	}
}

const discriminated = `{"allOf":[
	{"oneOf":[
		{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind","x"]},
		{"type":"object","properties":{"kind":{"const":"b"},"x":{"type":"string"},"y":{"type":"null"}},"required":["kind"]}]},
	{"properties":{"kind":{"const":"a"}},"required":["kind"]}]}`

func TestProperty(t *testing.T) {
	for _, c := range []struct{ schema, name, want string }{
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, "a", `{"type":"string"}`},
		{`{"type":"object","properties":{"a":{"type":"string"}}}`, "b", `true`},
		{`{"type":"object","additionalProperties":false}`, "b", `false`},
		{`{"type":"object","additionalProperties":{"type":"null"}}`, "b", `{"type":"null"}`},
		{`{"properties":{"a":{"minimum":1}},"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":false}`, "a", `{"type":"integer","minimum":1}`},
		{`{"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":false}`, "b", `false`},
		{`{"type":"string"}`, "a", `false`},
		{`false`, "a", `false`},
		{`true`, "a", `true`},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"properties":{"a":{"type":"string"}}}}}`, "a", `{"type":"string"}`},
		{`{"propertyNames":{"maxLength":1},"additionalProperties":{"type":"null"}}`, "ab", `false`},
		{`{"propertyNames":{"maxLength":2},"additionalProperties":{"type":"null"}}`, "ab", `{"type":"null"}`},
		{`{"maxProperties":1,"required":["a"],"properties":{"b":{"type":"null"}}}`, "b", `false`},
		{`{"required":["b"],"dependentRequired":{"b":["a"]},"not":{"required":["a"]}}`, "b", `false`},
		{`{"enum":[{"a":1},{"a":"x","b":null},[],{}]}`, "a", `{"enum":[1,"x"]}`},
		{`{"enum":[{"a":1},{"a":"x","b":null}],"required":["b"]}`, "a", `{"const":"x"}`},
		{`{"anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"type":"null"}}},{"type":"array"}],"type":"object"}`, "a", `{"type":["string","null"]}`},
		{discriminated, "x", `{"type":"integer"}`},
		{discriminated, "y", `true`},
		{discriminated, "kind", `{"const":"a"}`},
		{`{"if":{"properties":{"k":{"const":1}},"required":["k"]},"then":{"properties":{"x":{"type":"string"}}},"else":{"properties":{"x":{"type":"null"}}},
			"properties":{"k":{"const":1}},"required":["k"]}`, "x", `{"type":"string"}`},
		{`{"if":{"properties":{"k":{"const":1}},"required":["k"]},"then":{"properties":{"x":{"type":"string"}}},"else":{"properties":{"x":{"type":"null"}}},
			"properties":{"k":{"const":2}},"required":["k"]}`, "x", `{"type":"null"}`},
		{`{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"maxLength":3}}}]}`, "a", `{"type":"string","maxLength":3}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","properties":{"a":{"type":"null"}},"definitions":{"a":{"properties":{"a":{"type":"string"}}}}}`, "a", `{"type":"string"}`},
		{`{"properties":{"a":{"type":"string"}},"allOf":[{"properties":{"b":true}}],"unevaluatedProperties":{"type":"null"}}`, "c", `{"type":"null"}`},
		{`{"$dynamicAnchor":"n","properties":{"a":{"properties":{"b":{"$dynamicRef":"#n"}}}}}`, "a", `true`},
	} {
		equal(t, c.want, containment.Property(compile(t, c.schema), c.name, containment.Options{}), c.schema+" at "+c.name)
	}
}

func TestPropertyIsTheVerySubschema(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"$defs":{"b":{"properties":{"c":{"type":"string"}}}}}`)
	a := containment.Property(s, "a", containment.Options{})
	require.Same(t, s.Compiled().Properties["a"], a.Compiled())
	c := containment.Property(a, "c", containment.Options{})
	require.Same(t, s.Compiled().Properties["a"].Ref.Properties["c"], c.Compiled())
	require.Same(t, schemas.True(), containment.Property(a, "d", containment.Options{}))
	require.Same(t, schemas.False(), containment.Property(schemas.False(), "d", containment.Options{}))
	list := compile(t, `{"type":"array","items":{"type":"string"}}`)
	require.Same(t, list.Compiled().Items2020, containment.Element(list, -1, containment.Options{}).Compiled())
}

func TestElement(t *testing.T) {
	for _, c := range []struct {
		schema string
		index  int
		want   string
	}{
		{`{"type":"array","items":{"type":"string"}}`, 3, `{"type":"string"}`},
		{`{"type":"array","items":{"type":"string"}}`, -1, `{"type":"string"}`},
		{`{"type":"array","items":{"type":"string"},"maxItems":3}`, 3, `false`},
		{`{"type":"array","items":{"type":"string"},"maxItems":3}`, 2, `{"type":"string"}`},
		{`{"prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"integer"}}`, 1, `{"type":"null"}`},
		{`{"prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"integer"}}`, -1, `{"type":["string","null","integer"]}`},
		{`{"prefixItems":[{"type":"string"},{"type":"null"}],"items":false}`, -1, `{"type":["string","null"]}`},
		{`{"prefixItems":[{"type":"string"},{"type":"null"}],"items":{"type":"integer"},"maxItems":1}`, -1, `{"type":"string"}`},
		{`{"prefixItems":[{"type":"string"},false],"items":{"type":"integer"}}`, -1, `{"type":"string"}`},
		{`{"type":"object"}`, 0, `false`},
		{`{"enum":[[1,2],["a"],{}]}`, 0, `{"enum":[1,"a"]}`},
		{`{"enum":[[1,2],["a"],{}]}`, -1, `{"enum":[1,2,"a"]}`},
		{`{"anyOf":[{"type":"array","items":{"type":"null"}},{"type":"array","items":{"type":"string"}},{"type":"string"}]}`, 0, `{"type":["null","string"]}`},
		{`{"type":"array","not":{"minItems":1}}`, 0, `false`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":{"type":"null"}}`, 1, `{"type":"null"}`},
		{`{"items":{"type":"integer"},"contains":{"const":1},"maxContains":1,"minContains":0}`, -1, `{"type":"integer"}`},
		{`{"prefixItems":[true],"allOf":[{"items":{"type":"string"}}],"unevaluatedItems":false}`, 2, `{"type":"string"}`},
	} {
		equal(t, c.want, containment.Element(compile(t, c.schema), c.index, containment.Options{}), c.schema)
	}
}

// Where steps run out, parts are coarser and still right.
func TestPartOutOfSteps(t *testing.T) {
	s := compile(t, discriminated)
	for _, steps := range []int{1, 5, 20} {
		got := containment.Property(s, "x", containment.Options{Steps: steps})
		r := containment.Prove(compile(t, `{"type":"integer"}`), got, containment.Options{})
		require.Equal(t, containment.Proved, r.Verdict, "%d steps", steps)
	}
}

func TestDisjointEmpty(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want containment.Verdict
	}{
		{`{"type":"string"}`, `{"type":"integer"}`, containment.Proved},
		{`{"type":"string"}`, `{"minLength":3}`, containment.Refuted},
		{`{"type":"object","properties":{"k":{"const":1}},"required":["k"]}`, `{"properties":{"k":{"const":2}}}`, containment.Proved},
		{`{"type":"object","properties":{"k":{"const":1}}}`, `{"properties":{"k":{"const":2}}}`, containment.Refuted},
		{`false`, `true`, containment.Proved},
	} {
		a, b := compile(t, c.a), compile(t, c.b)
		r := containment.Disjoint(a, b, containment.Options{})
		require.Equal(t, c.want, r.Verdict, "%s and %s: %s", c.a, c.b, r.Reason)
		if r.Verdict == containment.Refuted {
			require.NoError(t, a.Validate(r.Witness))
			require.NoError(t, b.Validate(r.Witness))
		}
	}
	require.Equal(t, containment.Proved, containment.Empty(compile(t, `{"type":"integer","minimum":1,"maximum":0}`), containment.Options{}).Verdict)
	r := containment.Empty(compile(t, `{"type":"integer","minimum":1}`), containment.Options{})
	require.Equal(t, "1", string(r.JSON))
	require.Equal(t, containment.Refuted, containment.Disjoint(compile(t, `{"type":"string"}`), compile(t, `{"type":"string"}`), containment.Options{}).Verdict)
	require.Equal(t, containment.Unknown, containment.Empty(nil, containment.Options{}).Verdict)
}
