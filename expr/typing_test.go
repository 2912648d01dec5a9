package expr_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/schemas"
)

func compileSchema(t testing.TB, text string) *schemas.Schema {
	t.Helper()
	s, err := schemas.Compile([]byte(text))
	require.NoError(t, err, text)
	return s
}

// order is the type of value in most tests.
const order = `{
	"type": "object",
	"required": ["id", "total", "items", "flag", "small", "shape", "either", "tags", "price", "nested", "name"],
	"properties": {
		"id": {"type": "string", "minLength": 3},
		"note": {"type": "string"},
		"total": {"type": "integer"},
		"small": {"type": "integer", "minimum": 0, "maximum": 100},
		"price": {"type": "number", "minimum": 0, "maximum": 1000000},
		"flag": {"type": "boolean"},
		"name": {"enum": ["red", "green"]},
		"maybe": {"type": ["string", "null"]},
		"either": {"type": ["string", "integer"], "maximum": 10, "minimum": 0},
		"tags": {"type": "array", "items": {"type": "string"}},
		"items": {"type": "array", "maxItems": 50, "items": {"type": "object", "required": ["sku"], "properties": {
			"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1, "maximum": 9}}}},
		"pair": {"type": "array", "minItems": 2, "items": {"type": "integer"}},
		"nested": {"type": "object", "required": ["deep"], "properties": {"deep": {"type": "object", "properties": {"leaf": {"type": "string"}}}}},
		"shape": {"oneOf": [
			{"type": "object", "required": ["kind", "radius"], "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "minimum": 0, "maximum": 10}}},
			{"type": "object", "required": ["kind", "side"], "properties": {"kind": {"const": "square"}, "side": {"type": "integer", "minimum": 1, "maximum": 10}}}
		]}
	}
}`

func typing(t testing.TB) expr.Typing {
	return expr.Typing{Types: expr.Types{"value": compileSchema(t, order)}}
}

func checkLeaf(t testing.TB, src string, ty expr.Typing) (string, *schemas.Schema, []expr.TemplateProblem) {
	t.Helper()
	tmpl, bad := expr.CompileTemplate("${"+src+"}", expr.Transform)
	require.Empty(t, bad, src)
	v, result, problems := tmpl.Check(ty)
	text := v.(string)
	return strings.TrimSuffix(strings.TrimPrefix(text, "${"), "}"), result, problems
}

func TestExpressionsThatCannotFail(t *testing.T) {
	ty := typing(t)
	for _, c := range []struct{ src, result, rewritten string }{
		{"value.id", `{"type": "string", "minLength": 3}`, ""},
		{"value.shape.kind", `{"enum": ["circle", "square"]}`, ""},
		{"value.nested.deep", `{"type": "object"}`, ""},
		{"has(value.note) ? value.note : 'none'", `{"type": "string"}`, ""},
		{"!has(value.note) ? 'none' : value.note", `{"type": "string"}`, ""},
		{"has(value.note) && value.note == 'x'", `{"type": "boolean"}`, ""},
		{"!has(value.note) || value.note == 'x'", `{"type": "boolean"}`, ""},
		{"!has(value.note) || size(value.note) > 3", `{"type": "boolean"}`, ""},
		{"value.?note.orValue('none')", `{"type": "string"}`, ""},
		{"value.nested.deep.?leaf.orValue('x')", `{"type": "string"}`, ""},
		{"has(value.nested.deep.leaf) ? value.nested.deep.leaf : ''", `{"type": "string"}`, ""},
		{"value.?nested.deep.leaf.orValue('')", `{"type": "string"}`, ""},
		{"value.shape.kind == 'circle' ? value.shape.radius : value.shape.side", `{"type": "number", "minimum": 0, "maximum": 10}`, ""},
		{"value.shape.kind != 'circle' ? value.shape.side : 0", `{"type": "integer", "minimum": 0, "maximum": 10}`, ""},
		{"value.small + 1", `{"type": "integer", "minimum": 1, "maximum": 101}`, ""},
		{"value.small * value.small - 5", `{"type": "integer", "minimum": -5, "maximum": 9995}`, ""},
		{"-value.small", `{"type": "integer", "minimum": -100, "maximum": 0}`, ""},
		{"value.price * 2", `{"type": "number", "minimum": 0, "maximum": 2000000}`, "double(value.price) * double(2)"},
		{"value.price * 1.5", `{"type": "number", "minimum": 0, "maximum": 1500000}`, "double(value.price) * 1.5"},
		{"(value.price + 1) * value.small", `{"type": "number", "minimum": 0, "maximum": 100000100}`, "(double(value.price) + double(1)) * double(value.small)"},
		{"value.total < 1000 && value.total > -1000 ? value.total + 1 : 0", `{"type": "integer", "minimum": -998, "maximum": 1000}`, ""},
		{"value.small != 0 ? 10 / value.small : 0", `{"type": "integer", "minimum": 0, "maximum": 10}`, ""},
		{"value.small > 0 ? 10 / value.small : 0", `{"type": "integer", "minimum": 0, "maximum": 10}`, ""},
		{"value.small % 7", `{"type": "integer", "minimum": 0, "maximum": 6}`, ""},
		{"value.small / 7", `{"type": "integer", "minimum": 0, "maximum": 14}`, ""},
		{"size(value.items) > 0 ? value.items[0].sku : 'none'", `{"type": "string"}`, ""},
		{"value.items.size() == 0 ? '' : value.items[0].sku", `{"type": "string"}`, ""},
		{"value.items[?0].sku.orValue('')", `{"type": "string"}`, ""},
		{"size(value.items)", `{"type": "integer", "minimum": 0, "maximum": 50}`, ""},
		{"value.items.map(i, i.sku)", `{"type": "array", "items": {"type": "string"}, "maxItems": 50}`, ""},
		{"value.items.filter(i, has(i.count)).map(i, i.count)", `{"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 9}}`, ""},
		{"value.items.filter(i, has(i.count) && i.count > 3)", `{"type": "array", "items": {"type": "object", "required": ["count"], "properties": {"count": {"minimum": 4}}}}`, ""},
		{"value.items.map(i, has(i.count), i.count * 2)", `{"type": "array", "items": {"type": "integer", "minimum": 2, "maximum": 18}}`, ""},
		{"value.items.all(i, has(i.count)) ? value.items.map(i, i.count) : []", `{"type": "array", "items": {"type": "integer"}}`, ""},
		{"value.items.exists(i, i.sku == 'a') ? value.items[0].sku : ''", `{"type": "string"}`, ""},
		{"value.items.exists_one(i, i.sku == 'a')", `{"type": "boolean"}`, ""},
		{"value.tags.join(', ')", `{"type": "string"}`, ""},
		{"value.id.split(',')[0]", `{"type": "string"}`, ""},
		{"value.id.substring(0, 3)", `{"type": "string", "minLength": 3, "maxLength": 3}`, ""},
		{"value.id.substring(1)", `{"type": "string", "minLength": 2}`, ""},
		{"value.id + '-' + value.name", `{"type": "string", "minLength": 7}`, ""},
		{"value.tags + ['x']", `{"type": "array", "items": {"type": "string"}, "minItems": 1}`, ""},
		{"['x'] + value.tags", `{"type": "array", "items": {"type": "string"}, "prefixItems": [{"const": "x"}]}`, ""},
		{"value.name in ['red'] ? 1 : 2", `{"enum": [1, 2]}`, ""},
		{"value.flag", `{"type": "boolean"}`, ""},
		{"value.flag ? 1 : 2", `{"enum": [1, 2]}`, ""},
		{"type(value.either) == string ? value.either : 'n' + string(value.either)", `{"type": "string"}`, ""},
		{"type(value.either) == int ? value.either + 1 : 0", `{"type": "integer", "minimum": 0, "maximum": 11}`, ""},
		{"has(value.maybe) && value.maybe != null ? value.maybe + '!' : ''", `{"type": "string"}`, ""},
		{"has(value.maybe) && type(value.maybe) == string ? size(value.maybe) : 0", `{"type": "integer", "minimum": 0}`, ""},
		{"value.?note.optMap(n, n + '!').orValue('')", `{"type": "string"}`, ""},
		{"value.?note.hasValue() ? value.note : ''", `{"type": "string"}`, ""},
		{"{'a': value.id, 'b': value.small + 1}", `{"type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}`, ""},
		{"{'a': 1, ?'b': value.?note}", `{"type": "object", "required": ["a"], "additionalProperties": false, "properties": {"a": {"const": 1}, "b": {"type": "string"}}}`, ""},
		{"[value.id, value.small]", `{"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "string"}, {"type": "integer"}]}`, ""},
		{"[?value.?note, value.id]", `{"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}}`, ""},
		{"optional.unwrap([value.?note, value.?maybe])", `{"type": "array", "maxItems": 2, "items": {"type": ["string", "null"]}}`, ""},
		{"'a' + 'b'", `{"const": "ab"}`, ""},
		{"1 + 2", `{"const": 3}`, ""},
		{"int('12') + 1", `{"type": "integer"}`, ""},
		{"value.id.matches('^[0-9]{1,9}$') ? int(value.id) : 0", `{"type": "integer"}`, ""},
		{"timestamp('2020-01-01T00:00:00Z').getFullYear()", `{"type": "integer", "minimum": 1}`, ""},
		{"string(value.small)", `{"type": "string", "minLength": 1}`, ""},
		{"double(value.small) / 3.0", `{"type": "number"}`, ""},
		{"value.price >= 0.5 ? 1 / value.price : 0", `{"type": "number", "maximum": 2}`, "value.price >= 0.5 ? double(1) / double(value.price) : 0"},
		{"value.items.filter(i, i.sku != 'a').size() > 1 ? 1 : 2", `{"enum": [1, 2]}`, ""},
		{"value['id']", `{"type": "string"}`, ""},
		{"value.shape.kind == 'circle' && value.shape.radius > 1", `{"type": "boolean"}`, ""},
		{"has(value.shape.side) ? 'square' : string(value.shape.radius)", `{"type": "string"}`, ""},
	} {
		t.Run(c.src, func(t *testing.T) {
			source, result, problems := checkLeaf(t, c.src, ty)
			for _, p := range problems {
				t.Errorf("%s (%s)", p.Message, p.Hint)
			}
			if len(problems) > 0 {
				return
			}
			if c.rewritten == "" {
				c.rewritten = c.src
			}
			require.Equal(t, c.rewritten, source)
			r := containment.Prove(result, compileSchema(t, c.result), containment.Options{})
			require.Equal(t, containment.Proved, r.Verdict, "%s: witness %s, %s", "result", r.JSON, r.Reason)
		})
	}
}

func TestExpressionsThatMayFail(t *testing.T) {
	ty := typing(t)
	for _, c := range []struct {
		src    string
		kind   expr.Kind
		offset int
		text   string
	}{
		{"value.note", expr.MayFail, 5, "missing"},
	} {
		t.Run(c.src, func(t *testing.T) {
			_, _, problems := checkLeaf(t, c.src, ty)
			require.NotEmpty(t, problems)
			p := problems[0]
			t.Log(p.Message, "|", p.Hint, "|", p.Name, p.Witness)
			require.Equal(t, c.kind, p.Kind)
			require.Equal(t, c.offset, p.Offset-2)
			require.Contains(t, p.Message, c.text)
		})
	}
}
