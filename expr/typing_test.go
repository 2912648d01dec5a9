package expr_test

import (
	"encoding/json"
	"fmt"
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

// cannotFail are expressions over an order, with their results and what they are
// rewritten to.
var cannotFail = []struct{ src, result, rewritten string }{
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
	{"value.price >= 0.5 ? 1 / value.price : 0", `{"type": "number", "maximum": 2}`, "value.price >= 0.5 ? dyn(double(1)) / dyn(double(value.price)) : 0"},
	{"value.price * 2 == 6", `{"type": "boolean"}`, "dyn(double(value.price)) * dyn(double(2)) == 6"},
	{"value.price * 2 <= 6", `{"type": "boolean"}`, "double(value.price) * double(2) <= 6"},
	{"value.price + 1 in [2]", `{"type": "boolean"}`, "dyn(double(value.price)) + dyn(double(1)) in [2]"},
	{"[value.price * 2] + [1]", `{"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}`, "[dyn(double(value.price)) * dyn(double(2))] + [1]"},
	{"optional.of(value.price + 1).orValue(0)", `{"type": "number"}`, "optional.of(dyn(double(value.price)) + dyn(double(1))).orValue(0)"},
	{"value.items.filter(i, i.sku != 'a').size() > 1 ? 1 : 2", `{"enum": [1, 2]}`, ""},
	{"value['id']", `{"type": "string"}`, ""},
	{"value.shape.kind == 'circle' && value.shape.radius > 1", `{"type": "boolean"}`, ""},
	{"has(value.shape.side) ? 'square' : string(value.shape.radius)", `{"type": "string"}`, ""},
}

func TestExpressionsThatCannotFail(t *testing.T) {
	ty := typing(t)
	for _, c := range cannotFail {
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

// mayFail are expressions over an order that may fail, and what is said of them.
var mayFail = []struct {
	src           string
	kind          expr.Kind
	offset        int
	message, hint string
	witness       bool
}{
	{"value.note", expr.MayFail, 5, "value.note may be missing", "has(value.note) ? value.note : …, or value.?note.orValue(…)", true},
	{"value.not", expr.MayFail, 5, `"not" is not in `, "did you mean note?", true},
	{"value.id.x", expr.Wrong, 8, `value.id is a string and has no key "x"`, "", true},
	{"value.shape.radius", expr.MayFail, 11, "may be missing", "has(value.shape.radius) ? value.shape.radius", true},
	{"value.flag ? value.note : 'x'", expr.MayFail, 18, "may be missing", "has(value.note)", true},
	{"value.items[0]", expr.MayFail, 11, "fewer than 1 items", "size(value.items) > 0 ? value.items[0] : …", true},
	{"value.items[60]", expr.Wrong, 11, "never has as many as 61 items", "", true},
	{"value.items[value.small]", expr.MayFail, 11, "may be beyond the items", "value.items[?value.small].orValue(…)", false},
	{"value.items[size(value.items) - 1]", expr.MayFail, 11, "may be negative", "", false},
	{"value.nested[value.id]", expr.MayFail, 12, "may be missing", "value.nested[?value.id].orValue(…)", false},
	{"value.total + 1", expr.MayFail, 12, "may overflow", "add `minimum` and `maximum` to the schema of value.total", true},
	{"value.total > 0 ? value.total + 1 : 0", expr.MayFail, 30, "may overflow", "add `maximum` to the schema of value.total", true},
	{"-value.total", expr.MayFail, 0, "may overflow", "schema of value.total", true},
	{"value.price * 1e306", expr.MayFail, 12, "beyond what a double holds", "", true},
	{"10 / value.small", expr.MayFail, 3, "value.small may be 0", "value.small != 0 ? 10 / value.small : …", true},
	{"value.price != 0 ? 1 / value.price : 0", expr.MayFail, 21, "as near to 0 as it likes", "value.price >= 0.001", false},
	{"value.small % 0", expr.Wrong, 12, "division by 0", "", false},
	{"value.price % 2", expr.MayFail, 5, "value.price may be a number that is not whole", "type(value.price) == int", true},
	{"value.id + 1", expr.Wrong, 5, "value.id is a string", "", true},
	{"value.either + 1", expr.MayFail, 5, "value.either may be a string", "type(value.either) == int ? … : …", true},
	{"value.id < 3", expr.Wrong, 5, "value.id is a string", "", true},
	{"[] < value.id", expr.Wrong, 0, "is a list", "", false},
	{"!value.small", expr.Wrong, 6, "is for conditions", "", true},
	{"value.small || value.flag", expr.Wrong, 5, "is for conditions", "", false},
	{"value.flag || value.note == 'x'", expr.MayFail, 19, "may be missing", "", true},
	{"value.note == 'x' || value.flag", expr.MayFail, 5, "may be missing", "", false},
	{"size(value.small)", expr.Wrong, 10, "have a size", "", true},
	{"value.tags.map(t, t + 1)", expr.Wrong, 18, "t is a string", "", true},
	{"value.items.map(i, i.count)", expr.MayFail, 20, "i.count may be missing", "has(i.count) ? i.count", true},
	{"value.nested.map(x, x)", expr.Wrong, 5, "only lists can be walked", "", true},
	{"value.id.substring(5)", expr.MayFail, 18, "value.id may be shorter than 5", "size(value.id) >= 5", true},
	{"value.id.substring(3, 1)", expr.MayFail, 18, "3 may be greater than 1", "", false},
	{"int(value.id)", expr.MayFail, 3, "is not proved to be text of an int", `value.id.matches(r"`, true},
	{"int('x')", expr.Wrong, 3, "is no int", "", false},
	{"int(value.total)", expr.MayFail, 3, "may overflow", "", true},
	{"double(value.id)", expr.MayFail, 6, "text of a double", `value.id.matches(r"`, true},
	{"string(timestamp(value.id))", expr.MayFail, 16, "text of a timestamp", `value.id.matches(r"`, true},
	{"string(value.items)", expr.Wrong, 12, "value.items is a list", "", true},
	{"string(timestamp(0) + duration('1h'))", expr.MayFail, 20, "out of range", "", false},
	{"value.items.join(',')", expr.MayFail, 16, "join takes a list of strings", "map(x, string(x))", true},
	{"{value.small: 1}", expr.Wrong, 6, "the keys of an object are strings", "", true},
	{"value.?note.value()", expr.MayFail, 17, "may hold no value", "value.?note.orValue(…)", false},
	{"value.id.?x.orValue(value.note)", expr.MayFail, 25, "may be missing", "", true},
	{"value.tags.?x.orValue(1)", expr.Wrong, 10, "is a list", "", true},
	{"has(value.tags.x)", expr.Wrong, 3, "is a list", "", true},
	{"'a' in value.id", expr.Wrong, 12, "must be a list or an object", "", true},
	{"dyn(value.id).hasValue()", expr.Wrong, 22, "is for optional values", "", false},
	{"dyn(value.?note)", expr.Wrong, 0, "optional value", ".orValue(…)", false},
	{"type(value.id)", expr.Wrong, 0, "a type, which JSON does not have", "string(", false},
}

func TestExpressionsThatMayFail(t *testing.T) {
	ty := typing(t)
	for _, c := range mayFail {
		t.Run(c.src, func(t *testing.T) {
			tmpl, bad := expr.CompileTemplate("${"+c.src+"}", expr.Transform)
			if len(bad) > 0 {
				require.NotEqual(t, expr.MayFail, c.kind, bad)
				return // CEL's own types are enough to see it.
			}
			_, _, problems := tmpl.Check(ty)
			require.NotEmpty(t, problems)
			p := problems[0]
			require.Equal(t, c.kind, p.Kind, p.Message)
			require.Equal(t, c.offset, p.Offset-2, p.Message)
			require.Contains(t, p.Message, c.message)
			require.Contains(t, p.Hint, c.hint)
			require.Equal(t, c.witness, p.Name != "", "%s: %v", p.Message, p.Witness)
			if p.Name != "" {
				require.NoError(t, ty.Types[p.Name].Validate(p.Witness))
				_, err := tmpl.Eval(expr.Vars{p.Name: p.Witness})
				require.Error(t, err)
			}
		})
	}
}

func TestAllProblemsOfAnExpression(t *testing.T) {
	_, _, problems := checkLeaf(t, "[value.note, value.maybe + 'x', string(value.total + 1)]", typing(t))
	var at []int
	for _, p := range problems {
		at = append(at, p.Offset-2)
	}
	require.Equal(t, []int{6, 18, 18, 51}, at)
}

func TestConditionsAreTyped(t *testing.T) {
	ty := typing(t)
	for _, c := range []struct {
		src  string
		kind expr.Kind
		ok   bool
	}{
		{"value.flag", 0, true},
		{"value.small > 3", 0, true},
		{"value.small", expr.Predicate, false},
		{"value.id", expr.Predicate, false},
		{"value.flag ? value.id : 'x'", expr.Predicate, false},
		{"value.note == 'x'", expr.MayFail, false},
	} {
		p, err := expr.CompilePredicate(c.src, expr.When)
		if err != nil {
			require.False(t, c.ok, c.src)
			continue
		}
		source, problems := p.Check(ty)
		require.Equal(t, c.ok, len(problems) == 0, "%s: %v", c.src, problems)
		require.Equal(t, c.src, source)
		if !c.ok {
			require.Equal(t, c.kind, problems[0].Kind, c.src)
		}
	}
}

// What a guard says of a value holds for what is read behind it, and for the
// output of which the value is a port.
func TestNarrowing(t *testing.T) {
	types := expr.Types{
		"value":  compileSchema(t, `{"type": "object", "properties": {"note": {"type": "string"}, "n": {"type": "integer"}}}`),
		"output": compileSchema(t, `{"type": "object", "required": ["port"], "properties": {"port": {"type": "object", "properties": {"note": {"type": "string"}, "n": {"type": "integer"}}}}}`),
	}
	for _, c := range []struct {
		when  string
		holds bool
		port  string
		reads string
		ok    bool
	}{
		{"has(value.note)", true, "", "value.note", true},
		{"has(value.note)", false, "", "value.note", false},
		{"!has(value.note)", false, "", "value.note", true},
		{"has(value.note) && has(value.n)", true, "", "value.note", true},
		{"has(value.note) && has(value.n)", false, "", "value.note", false},
		{"!has(value.note) || !has(value.n)", false, "", "value.note", true},
		{"has(value.n) && value.n > 0 && value.n < 10", true, "", "value.n + 1", true},
		{"has(value.n) && value.n > 0", true, "", "value.n + 1", false},
		{"has(value.note)", true, "port", "output.port.note", true},
		{"has(output.port.note)", true, "port", "value.note", true},
		{"has(value.note)", true, "", "output.port.note", false},
		{"has(value.note)", true, "$", "output.note", true},
		{"has(output.note)", true, "$", "value.note", true},
		{"value.?note.hasValue()", true, "", "value.note", true},
		{"has(value.note) ? has(value.n) : false", true, "", "value.note", true},
		{"[1].exists(value, has(input.x))", true, "", "value.note", false},
	} {
		ty := expr.Typing{Types: types, Port: c.port}
		p, err := expr.CompilePredicate(c.when, expr.When)
		require.NoError(t, err)
		_, _, problems := checkLeaf(t, c.reads, p.Narrow(ty, c.holds))
		require.Equal(t, c.ok, len(problems) == 0, "%s is %v, %s: %v", c.when, c.holds, c.reads, problems)
	}
}

func TestTemplatesAreTyped(t *testing.T) {
	ty := typing(t)
	for _, c := range []struct{ template, result, rewritten string }{
		{`{"a": "${value.id}", "b": [1, "${value.small}"], "c": "x"}`, `{"type": "object", "additionalProperties": false, "required": ["a", "b", "c"], "properties": {
			"a": {"type": "string", "minLength": 3}, "b": {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"const": 1}, {"type": "integer", "maximum": 100}]}, "c": {"const": "x"}}}`, ""},
		{`"no expression"`, `{"const": "no expression"}`, ""},
		{`"$${x} ${value.id}!"`, `{"type": "string", "minLength": 9}`, ""},
		{`"$${x} ${value.price * 2}, ${value.price + 1}"`, `{"type": "string", "minLength": 7}`, `"$${x} ${double(value.price) * double(2)}, ${double(value.price) + double(1)}"`},
		{`"${'a'}-${'b'}-${true}"`, `{"const": "a-b-true"}`, ""},
	} {
		tmpl, bad := expr.CompileTemplate(decode(t, c.template), expr.Transform)
		require.Empty(t, bad)
		v, result, problems := tmpl.Check(ty)
		require.Empty(t, problems, c.template)
		if c.rewritten == "" {
			c.rewritten = c.template
		}
		require.Equal(t, decode(t, c.rewritten), v)
		r := containment.Prove(result, compileSchema(t, c.result), containment.Options{})
		require.Equal(t, containment.Proved, r.Verdict, "%s: %s", c.template, r.JSON)
	}
	tmpl, bad := expr.CompileTemplate(decode(t, `{"a": ["x", "- ${value.note} ${value.items}"]}`), expr.Transform)
	require.Empty(t, bad)
	_, _, problems := tmpl.Check(ty)
	require.Len(t, problems, 2)
	require.Equal(t, []any{"a", 1}, problems[0].Path)
	require.Equal(t, len("- ${value"), problems[0].Offset)
	require.Equal(t, []any{"a", 1}, problems[1].Path)
	require.Contains(t, problems[1].Message, "inside a string")
}

// Every expression takes a bounded amount of work.
func TestCheckingIsBounded(t *testing.T) {
	var wide strings.Builder
	for i := range 300 {
		fmt.Fprintf(&wide, `{"type": "object", "required": ["k"], "properties": {"k": {"const": %d}, "v%d": {"type": "integer"}}},`, i, i)
	}
	ty := expr.Typing{Types: expr.Types{"value": compileSchema(t, `{"anyOf": [`+strings.TrimSuffix(wide.String(), ",")+`]}`)}}
	chain := "value.k"
	for i := range 60 {
		chain += fmt.Sprintf(" == %d ? (has(value.v%d) ? value.v%d : 0) : value.k", i, i, i)
	}
	var or []string
	for i := range 200 {
		or = append(or, fmt.Sprintf("value.k == %d && has(value.v%d)", i, i))
	}
	nest := "[value]"
	for i := range 20 {
		nest = fmt.Sprintf("%s.map(x%d, [x%d, x%d][0])", nest, i, i, i)
	}
	deep := "value"
	for range 50 {
		deep = "[" + deep + "].map(y, y.k > 0 ? y : y)[0]"
	}
	for _, src := range []string{chain, strings.Join(or, " || "), nest, deep, strings.Repeat("value.k * ", 300) + "1", strings.Repeat("(value.k == 1 ? value.k : ", 40) + "0" + strings.Repeat(")", 40)} {
		tmpl, bad := expr.CompileTemplate("${"+src+"}", expr.Transform)
		if len(bad) > 0 {
			continue
		}
		_, _, problems := tmpl.Check(ty)
		require.LessOrEqual(t, len(problems), 16)
	}
}

// TestEndsOfDoubles: what is inferred of calculations with doubles takes what the
// binary doubles give at the ends of an interval, which decimals do not.
func TestEndsOfDoubles(t *testing.T) {
	for _, c := range []struct{ src, schema, end, gives string }{
		{"1.0 + value", `{"type": "number", "minimum": -1, "maximum": -0.7}`, "-0.7", "0.30000000000000004"},
		{"value + 0.2", `{"type": "number", "minimum": -1, "maximum": 0.1}`, "0.1", "0.30000000000000004"},
		{"value - 0.9", `{"type": "number", "minimum": 0.2, "maximum": 1}`, "0.2", "-0.7"},
		{"value * 6.0", `{"type": "number", "minimum": -8.4, "maximum": 0}`, "-8.4", "-50.400000000000006"},
		{"value / 3.0", `{"type": "number", "minimum": 0.1, "maximum": 0.7}`, "0.1", "0.03333333333333333"},
	} {
		t.Run(c.src, func(t *testing.T) {
			_, result, problems := checkLeaf(t, c.src, expr.Typing{Types: expr.Types{"value": compileSchema(t, c.schema)}})
			require.Empty(t, problems)
			tmpl, bad := expr.CompileTemplate("${"+strings.Replace(c.src, "value", "double(value)", 1)+"}", expr.Transform)
			require.Empty(t, bad)
			got, err := tmpl.Eval(expr.Vars{"value": json.Number(c.end)})
			require.NoError(t, err)
			require.Equal(t, json.Number(c.gives), got)
			require.NoError(t, result.Validate(got), result.Describe())
			// The end is reached: without it the schema says less than is known.
			require.Error(t, result.Validate(json.Number("1000")))
		})
	}
}
