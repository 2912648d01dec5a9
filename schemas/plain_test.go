package schemas

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// checkPlain compiles a schema both ways, and reports whether it is plain.
func checkPlain(t require.TestingT, raw []byte) bool {
	root, err := Decode(raw)
	if err != nil {
		return false
	}
	plain, _ := plainSchema(root)
	if plain == nil {
		return false
	}
	own, err := library(raw, root, nil)
	require.NoError(t, err, "taken for plain: %s", raw)
	if diff := differs(map[[2]uintptr]bool{}, reflect.ValueOf(plain), reflect.ValueOf(own.compiled), ""); diff != "" {
		require.Fail(t, "not as the library's", "%s: %.300s", diff, raw)
	}
	s := &Schema{compiled: plain, made: &made{plain: true}}
	g, err := s.bounds()
	require.NoError(t, err, "%s", raw)
	require.Equal(t, len(own.graph.nodes), len(g.nodes), "%s", raw)
	require.Len(t, g.at, len(own.graph.at), "%s", raw)
	for place := range own.graph.at {
		require.Contains(t, g.at, place)
	}
	require.Equal(t, own.graph.bound, g.bound, "%s", raw)
	return true
}

// differs says where two schemas differ, in any field but the message of an enum,
// which is never shown. What the library shares is the same pointer.
func differs(seen map[[2]uintptr]bool, a, b reflect.Value, at string) string {
	if a.Kind() != b.Kind() {
		return fmt.Sprintf("%s: %s and %s", at, a.Kind(), b.Kind())
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return at + ": one is nil"
			}
			return ""
		}
		if strings.HasSuffix(at, ".meta") || strings.HasSuffix(at, ".Draft") {
			if a.Pointer() != b.Pointer() {
				return at + ": not the same"
			}
			return ""
		}
		pair := [2]uintptr{a.Pointer(), b.Pointer()}
		if seen[pair] {
			return ""
		}
		seen[pair] = true
		return differs(seen, a.Elem(), b.Elem(), at)
	case reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return at + ": one is nil"
			}
			return ""
		}
		if a.Elem().Type() != b.Elem().Type() {
			return at + ": of another type"
		}
		return differs(seen, a.Elem(), b.Elem(), at)
	case reflect.Struct:
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			if name == "enumError" {
				if (a.Field(i).String() == "") != (b.Field(i).String() == "") {
					return at + ".enumError: one is empty"
				}
				continue
			}
			if diff := differs(seen, a.Field(i), b.Field(i), at+"."+name); diff != "" {
				return diff
			}
		}
	case reflect.Slice:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() && at != "abs" && !strings.HasSuffix(at, ".abs") {
			return fmt.Sprintf("%s: %d and %d elements", at, a.Len(), b.Len())
		}
		for i := range a.Len() {
			if diff := differs(seen, a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", at, i)); diff != "" {
				return diff
			}
		}
	case reflect.Map:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return at + ": other keys"
		}
		for it := a.MapRange(); it.Next(); {
			other := b.MapIndex(it.Key())
			if !other.IsValid() {
				return at + ": other keys"
			}
			if diff := differs(seen, it.Value(), other, at+"."+it.Key().String()); diff != "" {
				return diff
			}
		}
	case reflect.Func:
		if a.IsNil() != b.IsNil() {
			return at + ": one is nil"
		}
	default:
		if !a.Equal(b) {
			return fmt.Sprintf("%s: %v and %v", at, a, b)
		}
	}
	return ""
}

// Plain schemas come out as the library would compile them, and others are left to
// it.
func TestPlain(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `true`: false, `[]`: false, `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"null"}`: true,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema#"}`: false, `{"$schema":"http://json-schema.org/draft-07/schema#"}`: false,
		`{"items":{"$schema":"https://json-schema.org/draft/2020-12/schema"}}`: false,
		`{"type":"string"}`: true, `{"type":"text"}`: false, `{"type":["string","null"]}`: true, `{"type":[]}`: false,
		`{"type":["string","string"]}`: false, `{"type":["string",1]}`: false, `{"type":["text"]}`: false, `{"type":null}`: false,
		`{"title":"a","description":"b","$comment":"c","format":"date","default":{"a":[1]},"examples":[1],"deprecated":true,"readOnly":false,"writeOnly":true}`: true,
		`{"title":1}`: false, `{"description":[]}`: false, `{"$comment":{}}`: false, `{"format":1}`: false, `{"examples":{}}`: false,
		`{"deprecated":1}`: false, `{"readOnly":null}`: false, `{"writeOnly":"x"}`: false,
		`{"default":{"pattern":"("}}`: false, `{"default":[{"patternProperties":{"(":1}}]}`: false, `{"const":{"pattern":"x"}}`: false,
		`{"const":null}`: true, `{"const":{"$id":"x","$ref":"#/y"}}`: true, `{"enum":[1,"a",null,{"b":[]}]}`: true, `{"enum":[]}`: false, `{"enum":{}}`: false,
		`{"enum":[1],"title":"x"}`: true, `{"properties":{"a":{"enum":[{}]},"b":{"enum":["x","y"]}}}`: true, `{"enum":[1,1]}`: true,
		`{"minimum":0,"maximum":1.50,"exclusiveMinimum":-1e3,"exclusiveMaximum":12345678901234567890,"multipleOf":0.1}`: true,
		`{"minimum":"0"}`: false, `{"maximum":true}`: false, `{"exclusiveMinimum":true}`: false, `{"multipleOf":0}`: false, `{"multipleOf":-1}`: false,
		`{"minimum":-0}`: true, `{"minimum":-0.0e0}`: true, `{"maximum":1e400}`: true,
		`{"minLength":0,"maxLength":1,"minItems":2,"maxItems":3,"minProperties":4,"maxProperties":999999999999999}`: true,
		`{"minLength":-1}`: false, `{"minLength":1.0}`: false, `{"maxItems":1e2}`: false, `{"maxProperties":9999999999999999}`: false, `{"maxLength":"1"}`: false,
		`{"uniqueItems":true}`: true, `{"uniqueItems":1}`: false, `{"required":["a","b"]}`: true, `{"required":[]}`: true,
		`{"required":["a","a"]}`: false, `{"required":["a",1]}`: false, `{"required":"a"}`: false,
		`{"required":["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"]}`: true,
		`{"required":["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","a"]}`: false,
		`{"additionalProperties":true}`: true, `{"additionalProperties":{"type":"null"}}`: true, `{"additionalProperties":1}`: false,
		`{"properties":{"a":true,"b_1":{},"C":false}}`: true, `{"properties":{"a b":{}}}`: false, `{"properties":{"":{}}}`: false,
		`{"properties":{"é":{}}}`: false, `{"properties":{"a~b":{}}}`: false, `{"properties":{"pattern":{}}}`: true, `{"properties":{"patternProperties":{"(":true}}}`: false,
		`{"properties":[]}`: false, `{"properties":{"a":1}}`: false, `{"properties":{"a":{"type":1}}}`: false, `{"properties":{}}`: true,
		`{"items":true}`: true, `{"items":{"items":{"items":{}}}}`: true, `{"items":[{}]}`: false, `{"prefixItems":[true,{}]}`: true, `{"prefixItems":[]}`: false,
		`{"allOf":[{"anyOf":[{"oneOf":[{"not":{}}]}]}]}`: true, `{"allOf":[]}`: false, `{"anyOf":{}}`: false, `{"not":1}`: false, `{"oneOf":[1]}`: false,
		strings.Repeat(`{"not":`, 33) + `{}` + strings.Repeat(`}`, 33): false, strings.Repeat(`{"not":`, 20) + `true` + strings.Repeat(`}`, 20): true,
		`{"$ref":"#"}`: false, `{"$id":"x"}`: false, `{"$anchor":"x"}`: false, `{"patternProperties":{}}`: false,
		`{"pattern":"^x.\\d$"}`: true, `{"pattern":"^[a-z]+$"}`: true, `{"pattern":1}`: false, `{"pattern":"("}`: false, `{"pattern":"(?=x)"}`: false,
		`{"pattern":"\\cA"}`: false, `{"not":{"pattern":"\\s"}}`: true, `{"items":{"pattern":"[[]"}}`: true,
		`{"$defs":{}}`: true, `{"$defs":[]}`: false, `{"defs":{}}`: true, `{"defs":{"a":{}}}`: false, `{"$defs":{"a":{},"b-c.d":false}}`: true,
		`{"$defs":{"a":{"type":1}}}`: false, `{"$defs":{"a":{"type":"null"}},"$ref":"#/$defs/a"}`: true, `{"defs":{"a":{"enum":[1]}},"items":{"$ref":"#/defs/a"}}`: true,
		`{"$ref":"#/defs/a","defs":{"a":{"properties":{"x":{"$ref":"#/defs/a"},"y":{"$ref":"#/defs/b"}}},"b":{"items":{"$ref":"#/defs/a"}}}}`: true,
		`{"$ref":"#/defs/a","title":"x","maximum":1,"defs":{"a":{"minimum":1}}}`:                                                              true, `{"$ref":"#/defs/b","defs":{"a":{}}}`: false,
		`{"$ref":"#/defs/a/items","defs":{"a":{"items":{}}}}`: false, `{"$ref":"#/defs/a","defs":{"a":{},"b":{}}}`: false, `{"$ref":"#/defs/a","defs":{"a":1}}`: false,
		`{"$ref":"#/defs/a","defs":{"a":{"$ref":"#/defs/a"}}}`: false, `{"$ref":"#/defs/a","defs":{"a":{"not":{"$ref":"#/defs/b"}},"b":{"anyOf":[true,{"$ref":"#/defs/a"}]}}}`: false,
		`{"items":{"$ref":"#/defs/a"},"defs":{"a":{"allOf":[{"$ref":"#/defs/a"}]}}}`: false, `{"properties":{"a":{"defs":{}}}}`: false, `{"items":{"$defs":{}}}`: false,
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`: false, `{"$ref":1}`: false, `{"$ref":"#/defs/a%20b","defs":{"a b":{}}}`: false,
		`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`: false, `{"allOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}],"$defs":{"x":{"pattern":"a"}}}`: true,
		`{"x":1}`: false, `{"definitions":{}}`: false, `{"if":true}`: false, `{"contains":true}`: false,
		`{"unevaluatedProperties":false}`: false, `{"dependentRequired":{}}`: false, `{"contentEncoding":"x"}`: false, `{"$vocabulary":{}}`: false,
	} {
		require.Equal(t, want, checkPlain(t, []byte(text)), text)
	}
}

func TestPlainIsBounded(t *testing.T) {
	all := strings.Repeat(`true,`, MaxSubschemas-2) + `true`
	require.True(t, checkPlain(t, []byte(`{"prefixItems":[`+all+`]}`)))
	require.False(t, checkPlain(t, []byte(`{"prefixItems":[`+all+`,true]}`)))
	require.False(t, checkPlain(t, []byte(`{"prefixItems":[`+all+`,{}]}`)))
}

// Random schemas of the keywords that are known, right and wrong.
func TestPlainRandom(t *testing.T) {
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(drawn(t, 4))
		require.NoError(t, err)
		if checkPlain(t, raw) {
			plain++
		}
	})
	require.NotZero(t, plain)
}

// drawn is a random schema, most of whose keywords are valid.
func drawn(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 9).Draw(t, "leaf") == 0 {
		return rapid.SampledFrom([]any{true, false, map[string]any{}, map[string]any{"type": "string"}, 1, nil, []any{}, "x"}).Draw(t, "v")
	}
	m := map[string]any{}
	one := func() any { return drawn(t, depth-1) }
	some := func() []any {
		out := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			out = append(out, one())
		}
		return out
	}
	pick := func(all ...any) any { return rapid.SampledFrom(all).Draw(t, "one") }
	for range rapid.IntRange(0, 4).Draw(t, "keywords") {
		switch key := rapid.SampledFrom(drawnKeywords).Draw(t, "key"); key {
		case "type":
			m[key] = pick("string", "integer", "object", []any{"array", "null"}, []any{"null", "null"}, "x", []any{}, nil)
		case "required":
			m[key] = pick([]any{}, []any{"a"}, []any{"a", "b"}, []any{"a", "a"}, []any{1}, "a")
		case "enum", "examples":
			m[key] = pick([]any{}, []any{1}, []any{1, 1}, []any{"a", nil, map[string]any{"pattern": "("}}, 1)
		case "const", "default":
			m[key] = pick(nil, 1, "a", []any{map[string]any{"patternProperties": map[string]any{"(": 1}}}, map[string]any{"$ref": "#x"})
		case "$ref":
			m[key] = pick("#/$defs/a", "#/$defs/a", "#/defs/a", "#/defs/b", "#", "#/$defs/a%20b", "#/$defs/x", 1)
		case "properties", "patternProperties", "$defs", "defs":
			all := map[string]any{}
			for range rapid.IntRange(0, 3).Draw(t, "n") {
				all[rapid.SampledFrom([]string{"a", "a", "b", "c_1", "a-b", "a.b", ".", "..", "a b", "é", "%61", "~", "pattern", "$id", ""}).Draw(t, "name")] = one()
			}
			m[key] = all
		case "allOf", "anyOf", "oneOf", "prefixItems":
			m[key] = some()
		case "not", "items", "additionalProperties", "contains", "propertyNames":
			m[key] = one()
		case "pattern":
			m[key] = pick("^a$", "\\d", "[[]", "(?=x)", "(", ".", "x{2,3}", 1)
		case "title", "format", "description", "$comment", "$anchor":
			m[key] = pick("x", "date", 1, nil)
		case "deprecated", "readOnly", "uniqueItems":
			m[key] = pick(true, false, 1)
		default:
			m[key] = pick(0, 1, 3, 7, -1, 1.5, 1e20, "1", true, json.Number("2.0"), json.Number("1e2"), json.Number("-0"))
		}
	}
	return m
}

var drawnKeywords = []string{
	"type", "type", "required", "enum", "examples", "const", "default", "properties", "properties", "patternProperties", "$defs",
	"$ref", "$ref", "$defs", "$defs", "defs", "allOf", "anyOf", "oneOf", "prefixItems", "not", "items", "additionalProperties", "contains", "propertyNames",
	"title", "format", "description", "pattern", "$comment", "$anchor", "deprecated", "readOnly", "uniqueItems",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
	"minItems", "maxItems", "minProperties", "maxProperties",
}

// The schemas of real tools and of public pairs are the same both ways, and many
// are plain.
func TestPlainPublic(t *testing.T) {
	read := func(names ...string) (raw []byte) {
		err := os.ErrNotExist
		for _, name := range names {
			if raw, err = os.ReadFile(name); !errors.Is(err, os.ErrNotExist) {
				break
			}
		}
		require.NoError(t, err)
		return raw
	}
	var tools []struct{ InputSchema, OutputSchema json.RawMessage }
	require.NoError(t, json.Unmarshal(read("../../shared/data/mcp-tools.json", "../containment/testdata/tools.json"), &tools))
	plain, all := 0, 0
	for _, tool := range tools {
		for _, raw := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
			if len(raw) == 0 || string(raw) == "null" {
				continue
			}
			all++
			if checkPlain(t, raw) || checkPlain(t, undraft(t, raw)) {
				plain++
			}
		}
	}
	t.Logf("tools: %d of %d are plain without their $schema", plain, all)
	require.Greater(t, 4*plain, all)

	plain, all = 0, 0
	lines := bufio.NewScanner(bytes.NewReader(read("../../shared/data/subschema/pairs.jsonl", "../containment/testdata/pairs.jsonl")))
	lines.Buffer(nil, MaxBytes)
	for lines.Scan() {
		var pair struct{ LHS, RHS json.RawMessage }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &pair))
		for _, raw := range []json.RawMessage{pair.LHS, pair.RHS} {
			all++
			if checkPlain(t, raw) || checkPlain(t, undraft(t, raw)) {
				plain++
			}
		}
	}
	require.NoError(t, lines.Err())
	t.Logf("pairs: %d of %d", plain, all)
	require.Greater(t, 4*plain, all)
}

// undraft is a schema without its $schema.
func undraft(t *testing.T, raw []byte) []byte {
	root, err := Decode(raw)
	require.NoError(t, err)
	if m, ok := root.(map[string]any); ok {
		delete(m, "$schema")
	}
	out, err := json.Marshal(root)
	require.NoError(t, err)
	return out
}

func FuzzPlain(f *testing.F) {
	for _, seed := range []string{
		`{"$ref":"#/defs/a","defs":{"a":{"properties":{"x":{"$ref":"#/defs/a"}},"not":{"$ref":"#/defs/b"}},"b":{"pattern":"^\\d$"}}}`,
		`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"],"additionalProperties":false}`,
		`{"title":"x","enum":[1,"a",{"b":[]}],"items":{"not":true},"prefixItems":[{"const":null}]}`,
		`{"oneOf":[{"maxLength":3,"format":"date"},{"multipleOf":0.1}],"uniqueItems":true,"default":{"a":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { checkPlain(t, raw) })
}
