package schemas_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/schemas"
)

func TestSchemasAreBounded(t *testing.T) {
	chain := func(n int) string {
		var defs []string
		for i := range n {
			defs = append(defs, fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1))
		}
		return fmt.Sprintf(`{"$ref":"#/$defs/d0","$defs":{%s,"d%d":true}}`, strings.Join(defs, ","), n)
	}
	tests := map[string]string{
		"depth":      strings.Repeat(`{"items":`, 200) + `true` + strings.Repeat(`}`, 200),
		"size":       `{"description":"` + strings.Repeat("x", schemas.MaxSchemaBytes) + `"}`,
		"subschemas": `{"allOf":[` + strings.Repeat(`true,`, schemas.MaxSubschemas) + `true]}`,
		"properties": `{"properties":{` + list(schemas.MaxSubschemas+1, func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}}`,
		"chain":      chain(schemas.MaxChain + 1),
	}
	for name, schema := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := schemas.Compile([]byte(schema))
			require.ErrorIs(t, err, schemas.ErrTooLarge)
		})
	}
	mustCompile(t, chain(schemas.MaxChain-1))

	// The error has the bound, and where it is exceeded.
	for schema, want := range map[string]string{
		`{"properties":{"a":{"properties":{` + list(schemas.MaxSubschemas+1, func(i int) string { return fmt.Sprintf(`"p%d":{}`, i) }) + `}}}}`: `at "/properties/a": too large: more than 4096 subschemas`,
		tests["properties"]: `compile schema: too large: more than 4096 subschemas`,
		`{"properties":{"a/b":{"pattern":"` + strings.Repeat("a", schemas.MaxPattern+1) + `"}}}`:                                       `at "/properties/a~1b": too large: a pattern of 8193 bytes, more than 8192`,
		`{"allOf":[{"patternProperties":{"` + strings.Repeat("a", schemas.MaxPattern+1) + `":true}}]}`:                                 `at "/allOf/0": too large: a pattern of 8193 bytes, more than 8192`,
		`{"properties":{` + list(60, func(i int) string { return fmt.Sprintf(`"p%02d":{"pattern":"[a-z]{1,900}%02d"}`, i, i) }) + `}}`: `too large: patterns whose programs have more than 65536 instructions together`,
	} {
		_, err := schemas.Compile([]byte(schema))
		require.ErrorIs(t, err, schemas.ErrTooLarge)
		require.ErrorContains(t, err, want)
	}

	_, err := schemas.Compile([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"` + strings.Repeat("k", 500_000) + `":{"allOf":[` + strings.Repeat("true,", 1000) + `true]}}}`))
	require.ErrorIs(t, err, schemas.ErrTooLarge)
	require.ErrorContains(t, err, "subschemas whose places have more than 16777216 bytes together")

	// The largest that are allowed compile in bounded time.
	for name, schema := range map[string]string{
		"wide": `{"properties":{` + list(schemas.MaxSubschemas-1, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string"}`, i) }) + `}}`,
		"referring": `{"properties":{` + list(1300, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/defs/d%d"}`, i, i) }) +
			`},"defs":{` + list(1300, func(i int) string { return fmt.Sprintf(`"d%d":{"type":"string"}`, i) }) + `}}`,
		"everything applies": `{"allOf":[` + list(4000, func(i int) string { return fmt.Sprintf(`{"required":["p%d"]}`, i) }) + `]}`,
		"everything applies to everything": `{"$ref":"#/$defs/T","$defs":{"T":{"allOf":[` + list(2000, func(i int) string {
			return fmt.Sprintf(`{"properties":{"p%d":{"$ref":"#/$defs/T"}}}`, i)
		}) + `]}}}`,
	} {
		t.Run(name, func(t *testing.T) { mustCompile(t, schema) })
	}
}

func list(n int, item func(int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = item(i)
	}
	return strings.Join(all, ",")
}

// Each of these makes the bare library run for minutes or much longer.
func TestValidationIsBounded(t *testing.T) {
	doubling := `{"$ref":"#/$defs/d0","$defs":{` + list(28, func(i int) string {
		return fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1)
	}) + `,"d28":{"type":"object"}}}`
	// Every alternative examines left, whatever op is.
	tree := `{"$ref":"#/$defs/E","$defs":{"E":{"anyOf":[` + list(8, func(i int) string {
		return fmt.Sprintf(`{"properties":{"op":{"const":%d},"left":{"$ref":"#/$defs/E"}},"required":["op","left"]}`, i)
	}) + `,{"type":"number"}]}}}`
	nested := func(n int) string { return strings.Repeat(`{"op":1,"left":`, n) + `1` + strings.Repeat(`}`, n) }
	numbers := list(5000, func(i int) string { return fmt.Sprint(i) + ".5" })
	tests := []struct{ name, schema, value string }{
		{"doubling references", doubling, `{}`},
		{"alternatives of a recursive type", tree, nested(60)},
		{"every property twice", `{"$ref":"#/$defs/E","$defs":{"E":{"patternProperties":{"a":{"$ref":"#/$defs/E"},"b":{"$ref":"#/$defs/E"}}}}}`,
			strings.Repeat(`{"ab":`, 100) + `1` + strings.Repeat(`}`, 100)},
		{"names and members", `{"$ref":"#/$defs/E","$defs":{"E":{"items":{"$ref":"#/$defs/E"},"contains":{"$ref":"#/$defs/E"}}}}`,
			strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100)},
		{"dynamic references", `{"$dynamicAnchor":"E","properties":{"a":{"allOf":[{"$dynamicRef":"#E"},{"$dynamicRef":"#E"}]}}}`,
			strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100)},
		{"a long enumeration of numbers", `{"items":{"enum":[` + numbers + `]}}`, `[` + strings.ReplaceAll(numbers, ".5", ".25") + `]`},
		{"a long pattern and long text", `{"pattern":"^(a|aa|[ab]{1,100}){1,9}$"}`, `"` + strings.Repeat("a", 1<<20) + `c"`},
		{"long names and patterns", `{"patternProperties":{"^(a|aa|[ab]{1,100}){1,9}$":true}}`, `{"` + strings.Repeat("a", 1<<20) + `c":1}`},
		{"unique members all the way down", strings.Repeat(`{"uniqueItems":true,"items":`, 60) + `true` + strings.Repeat(`}`, 60),
			strings.Repeat(`[`, 60) + list(40000, func(i int) string { return fmt.Sprint(i) + "e300" }) + strings.Repeat(`]`, 60)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := mustCompile(t, tt.schema).ValidateJSON([]byte(tt.value))
			require.ErrorIs(t, err, schemas.ErrTooLarge)
		})
	}
	// The same schemas accept values of a usual size.
	for _, tt := range []struct{ schema, value string }{{tree, nested(4)}, {tests[5].schema, `[7.5]`}, {tests[6].schema, `"aaaa"`}} {
		_, err := mustCompile(t, tt.schema).ValidateJSON([]byte(tt.value))
		require.NoError(t, err)
	}
}

func TestValuesAreBounded(t *testing.T) {
	for name, value := range map[string]string{
		"bytes":  `"` + strings.Repeat("x", schemas.MaxBytes) + `"`,
		"depth":  strings.Repeat("[", schemas.MaxDepth+1) + strings.Repeat("]", schemas.MaxDepth+1),
		"deeper": strings.Repeat("[", 1<<20),
		"maps":   strings.Repeat(`{"a":`, schemas.MaxDepth+1) + `1` + strings.Repeat("}", schemas.MaxDepth+1),
		"nodes":  `[` + strings.Repeat("1,", schemas.MaxNodes) + `1]`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schemas.Decode([]byte(value))
			require.ErrorIs(t, err, schemas.ErrTooLarge)
			var se *schemas.SyntaxError
			require.ErrorAs(t, err, &se)
		})
	}
	_, err := schemas.Decode([]byte(strings.Repeat("[", schemas.MaxDepth) + strings.Repeat("]", schemas.MaxDepth)))
	require.NoError(t, err)
	s := mustCompile(t, `true`)
	large := make([]any, schemas.MaxNodes)
	require.ErrorIs(t, s.Validate(large), schemas.ErrTooLarge)
	require.NoError(t, s.Validate(large[:schemas.MaxNodes-1]))
	require.ErrorIs(t, s.Validate([]any{strings.Repeat("x", schemas.MaxBytes), "x"}), schemas.ErrTooLarge)
}

// TestLongKeyOfManyValues: a place is put together for an error only. With one for each value of
// this schema, 2 GB are allocated.
func TestLongKeyOfManyValues(t *testing.T) {
	schema := []byte(`{"x":{"` + strings.Repeat("k", 500_000) + `":[` + strings.Repeat("0,", 4000) + `0]}}`)
	before, after := new(runtime.MemStats), new(runtime.MemStats)
	runtime.ReadMemStats(before)
	_, err := schemas.Compile(schema)
	runtime.ReadMemStats(after)
	require.NoError(t, err)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<28))
}
