package schemas_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/schemas"
)

// drawMade draws the same schema twice: made, and as JSON.
func drawMade(r *rapid.T, depth int) (*schemas.Schema, any) {
	switch rapid.IntRange(0, 9).Draw(r, "form") {
	case 0:
		return schemas.True(), true
	case 1:
		return schemas.False(), false
	case 2:
		// Parts of documents keep their place in every document.
		text := rapid.SampledFrom([]string{
			`{"properties":{"a":{"const":1}},"additionalProperties":false}`, `{"properties":{"a":{"type":"string"}},"additionalProperties":{"type":"integer"}}`,
			`{"properties":{"a":{"enum":["ab",null]}},"maxProperties":1}`,
		}).Draw(r, "document")
		whole, err := schemas.Compile([]byte(text))
		require.NoError(r, err)
		var v map[string]any
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		require.NoError(r, dec.Decode(&v))
		if rapid.Bool().Draw(r, "part") {
			return schemas.Wrap(whole.Compiled().Properties["a"]), v["properties"].(map[string]any)["a"]
		}
		return whole, v
	}
	k, m := schemas.Keywords{}, map[string]any{}
	some := func(name string) bool { return rapid.IntRange(0, 3).Draw(r, name) == 0 }
	sub := func() (*schemas.Schema, any) {
		if depth <= 0 {
			return schemas.True(), true
		}
		return drawMade(r, depth-1)
	}
	several := func(name string) (made []*schemas.Schema) {
		var raw []any
		for range rapid.IntRange(1, 2).Draw(r, name) {
			s, v := sub()
			made, raw = append(made, s), append(raw, v)
		}
		m[name] = raw
		return made
	}
	count := func(name string) *int {
		n := rapid.IntRange(0, 2).Draw(r, name)
		m[name] = n
		return &n
	}
	number := func(name string) *big.Rat {
		n := rapid.IntRange(1, 3).Draw(r, name)
		m[name] = n
		return big.NewRat(int64(n), 1)
	}
	value := func(name string) any {
		return rapid.SampledFrom([]any{nil, true, json.Number("1"), json.Number("1.0"), json.Number("2.5"), "", "ab", []any{json.Number("1")}, map[string]any{"a": nil}}).Draw(r, name)
	}
	if some("type") {
		k.Types = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"null", "boolean", "integer", "number", "string", "array", "object"}), 1, 4, rapid.ID[string]).Draw(r, "types")
		m["type"] = k.Types
	}
	if some("const") {
		k.Const = []any{value("const")}
		m["const"] = k.Const[0]
	}
	if some("enum") {
		k.Enum = []any{value("enum"), "zz"}
		m["enum"] = k.Enum
	}
	if some("allOf") {
		k.All = several("allOf")
	}
	if some("anyOf") {
		k.Any = several("anyOf")
	}
	if some("not") {
		k.Not, m["not"] = sub()
	}
	if some("properties") {
		k.Properties = map[string]*schemas.Schema{}
		raw := map[string]any{}
		for _, name := range []string{"a", "b/~ %"} {
			k.Properties[name], raw[name] = sub()
		}
		m["properties"] = raw
	}
	if some("required") {
		k.Required = []string{"a"}
		m["required"] = k.Required
	}
	if some("rest") {
		k.Rest, m["additionalProperties"] = sub()
	}
	if some("prefix") {
		k.Prefix = several("prefixItems")
	}
	if some("items") {
		k.Items, m["items"] = sub()
	}
	if some("numbers") {
		k.Minimum, k.Maximum = number("minimum"), number("maximum")
	}
	if some("exclusive") {
		k.ExclusiveMinimum, k.ExclusiveMaximum, k.MultipleOf = number("exclusiveMinimum"), number("exclusiveMaximum"), number("multipleOf")
	}
	if some("counts") {
		k.MinItems, k.MaxItems, k.MinLength, k.MaxLength = count("minItems"), count("maxItems"), count("minLength"), count("maxLength")
		k.MinProperties, k.MaxProperties = count("minProperties"), count("maxProperties")
	}
	if some("pattern") {
		text := rapid.SampledFrom([]string{"^a", "b$", "[0-9]"}).Draw(r, "pattern")
		k.Pattern, m["pattern"] = regexp.MustCompile(text), text
	}
	return schemas.Make(k), m
}

func drawInstance(r *rapid.T, depth int) any {
	switch k := rapid.IntRange(0, 6).Draw(r, "kind"); {
	case k < 4 || depth <= 0:
		return rapid.SampledFrom([]any{nil, true, false, "", "ab", "b1", "zz", json.Number("1"), json.Number("2.0"), json.Number("2.5"), json.Number("-3")}).Draw(r, "scalar")
	case k == 4:
		list := []any{}
		for range rapid.IntRange(0, 3).Draw(r, "n") {
			list = append(list, drawInstance(r, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(r, "n") {
		object[rapid.SampledFrom([]string{"a", "b/~ %", "c", "ab"}).Draw(r, "key")] = drawInstance(r, depth-1)
	}
	return object
}

// A made schema gives the same verdict as the one that is compiled from its text,
// and the same causes except for their places.
func TestMadeIsCompiled(t *testing.T) {
	valid := 0
	rapid.Check(t, func(r *rapid.T) {
		made, v := drawMade(r, 3)
		raw, err := json.Marshal(v)
		require.NoError(r, err)
		compiled, err := schemas.Compile(raw)
		require.NoError(r, err, "%s", raw)
		require.Equal(r, compiled.Describe(), made.Describe(), "%s", raw)
		for range 4 {
			value := drawInstance(r, 3)
			one, two := said(r, made, value), said(r, compiled, value)
			if one["more"]+two["more"] > 0 {
				// There are more causes than are looked at, and which these are may differ.
				require.NotNil(r, one, "%s of %v", raw, value)
				require.NotNil(r, two, "%s of %v", raw, value)
				continue
			}
			require.Equal(r, two, one, "%s of %v", raw, value)
			if one == nil {
				valid++
			}
		}
	})
	require.Positive(t, valid)
}

func said(t require.TestingT, s *schemas.Schema, v any) map[string]int {
	err := s.Validate(v)
	if err == nil {
		return nil
	}
	var invalid *schemas.Invalid
	require.ErrorAs(t, err, &invalid)
	if invalid.More > 0 {
		return map[string]int{"more": 1}
	}
	causes := map[string]int{}
	for _, c := range invalid.Causes {
		causes[c.Instance+" "+c.Message] = 1
	}
	return causes
}

func TestMadeIsSafeTogether(t *testing.T) {
	part := mustCompile(t, `{"properties":{"a":{"$ref":"#"}},"maxProperties":1}`)
	s := schemas.Make(schemas.Keywords{All: []*schemas.Schema{part, nil}, Properties: map[string]*schemas.Schema{"a": schemas.Wrap(part.Compiled()), "b": nil}})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := s.ValidateJSON([]byte(`{"a":{"a":{}}}`))
			require.NoError(t, err)
			_, err = s.ValidateJSON([]byte(`{"a":{"a":{},"b":1}}`))
			require.Error(t, err)
		})
	}
	all.Wait()
}

func TestMadeIsBounded(t *testing.T) {
	// Each level applies the one below twice.
	s := schemas.Make(schemas.Keywords{Types: []string{"object"}})
	for range 40 {
		s = schemas.Make(schemas.Keywords{All: []*schemas.Schema{s, s}})
	}
	require.ErrorIs(t, s.Validate(map[string]any{}), schemas.ErrTooLarge)
	for range schemas.MaxChain {
		s = schemas.Make(schemas.Keywords{Not: s})
	}
	require.ErrorIs(t, s.Validate(nil), schemas.ErrTooLarge, "a chain that is too long")

	many := map[string]*schemas.Schema{}
	for i := range schemas.MaxJoined {
		many[fmt.Sprint(i)] = schemas.Make(schemas.Keywords{Types: []string{"null"}})
	}
	require.ErrorIs(t, schemas.Make(schemas.Keywords{Properties: many}).Validate(nil), schemas.ErrTooLarge)

	large := schemas.Make(schemas.Keywords{Const: []any{json.Number("1e1000001")}})
	require.ErrorIs(t, large.Validate(json.Number("1")), schemas.ErrTooLarge, "the library would compute the number")
	require.ErrorContains(t, schemas.Make(schemas.Keywords{Enum: []any{1}}).Validate(json.Number("1")), "is not decoded JSON")
}

func TestMadeCounts(t *testing.T) {
	below := -1
	for _, k := range []schemas.Keywords{{MaxLength: &below}, {MaxItems: &below}, {MaxProperties: &below}} {
		s := schemas.Make(k)
		bad := 0
		for _, v := range []any{"", []any{}, map[string]any{}, "a", []any{nil}} {
			if s.Validate(v) != nil {
				bad++
			}
		}
		require.Positive(t, bad, "no value is shorter than nothing")
		k = schemas.Keywords{MinLength: k.MaxLength, MinItems: k.MaxItems, MinProperties: k.MaxProperties}
		require.NoError(t, schemas.Make(k).Validate(""))
	}
}

// Where a dynamic reference leads depends on the schemas around it.
func TestMadeOfDynamicReferences(t *testing.T) {
	whole := mustCompile(t, `{"$dynamicAnchor":"n","type":["object","null"],"properties":{"next":{"$dynamicRef":"#n"}},"additionalProperties":false,"if":true,"then":true}`)
	s := schemas.Make(schemas.Keywords{Items: whole})
	_, err := s.ValidateJSON([]byte(`[{"next":{"next":null}}]`))
	require.NoError(t, err)
	_, err = s.ValidateJSON([]byte(`[{"next":{"more":null}}]`))
	require.ErrorContains(t, err, "not allowed")

	part := schemas.Wrap(whole.Compiled().Properties["next"])
	for _, s := range []*schemas.Schema{part, schemas.Make(schemas.Keywords{Items: part})} {
		err := s.Validate([]any{})
		require.ErrorContains(t, err, "depends on the whole")
		var invalid *schemas.Invalid
		require.NotErrorAs(t, err, &invalid)
	}

	// The work of what only a dynamic reference leads to is bounded.
	twice := mustCompile(t, `{"$ref":"tree","$defs":{"strict":{"$dynamicAnchor":"n","allOf":[{"$ref":"tree"},{"$ref":"tree"}]},
		"tree":{"$id":"tree","$dynamicAnchor":"n","properties":{"a":{"allOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}}}}`)
	deep := strings.Repeat(`{"a":`, 60) + `1` + strings.Repeat(`}`, 60)
	for _, s := range []*schemas.Schema{twice, schemas.Make(schemas.Keywords{All: []*schemas.Schema{twice}})} {
		_, err := s.ValidateJSON([]byte(deep))
		require.ErrorIs(t, err, schemas.ErrTooLarge)
	}
}

func TestDescribe(t *testing.T) {
	tests := []struct{ schema, want string }{
		{`true`, `true`}, {`false`, `false`}, {`{}`, `{}`},
		{`{"maximum":11,"type":"integer"}`, `{type: integer, maximum: 11}`},
		{`{"type":["string","null"],"minLength":1,"maxLength":5,"pattern":"^a\\d"}`, `{type: [string, null], minLength: 1, maxLength: 5, pattern: "^a\\d"}`},
		{`{"minimum":0.1,"exclusiveMaximum":1e3,"multipleOf":0.01}`, `{minimum: 0.1, exclusiveMaximum: 1000, multipleOf: 0.01}`},
		{`{"const":null}`, `{const: null}`}, {`{"enum":[1,"a",{"b":[]}]}`, `{enum: [1, "a", {"b":[]}]}`},
		{`{"type":"object","properties":{"b c":{"type":"null"},"a":true},"required":["a"],"additionalProperties":false}`,
			`{type: object, properties: {a: true, "b c": {type: null}}, required: [a], additionalProperties: false}`},
		{`{"prefixItems":[{"const":1}],"items":false,"contains":{"const":1},"minContains":2,"uniqueItems":true}`,
			`{prefixItems: [{const: 1}], items: false, uniqueItems: true, contains: {const: 1}, minContains: 2}`},
		{`{"anyOf":[{"$ref":"#/$defs/a"},{"not":{}}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"type":"null"}}}`, `{anyOf: [{type: null}, {not: {}}]}`},
		{`{"properties":{"next":{"$ref":"#"}}}`, `{properties: {next: …}}`},
		{`{"dependentRequired":{"a":["b"]},"patternProperties":{"^x":{"type":"null"}},"if":true,"then":{"minItems":1}}`,
			`{patternProperties: {"^x": {type: null}}, with a: [b], if: true, then: {minItems: 1}}`},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, mustCompile(t, tt.schema).Describe(), tt.schema)
	}
	for _, schema := range []string{
		`{"enum":[` + list(500, func(i int) string { return fmt.Sprint(i) }) + `]}`, `{"const":"` + strings.Repeat("é", 4000) + `"}`,
		`{"properties":{` + list(500, func(i int) string {
			return fmt.Sprintf(`"p%d":{"type":"object","required":["%s"]}`, i, strings.Repeat("x", 100))
		}) + `}}`,
		strings.Repeat(`{"items":`, 50) + `true` + strings.Repeat(`}`, 50),
	} {
		text := mustCompile(t, schema).Describe()
		require.Contains(t, text, "…")
		require.Less(t, len(text), 400)
	}
}
