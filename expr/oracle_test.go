package expr

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/debug"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/parser"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// stock is CEL as the library sets it up itself: its other parser, its
// environment, its functions, no meters.
func stock(t testing.TB) *cel.Env {
	t.Helper()
	base, err := types.NewRegistry()
	require.NoError(t, err)
	env, err := cel.NewEnv(
		cel.CustomTypeAdapter(adapter{base}), cel.CustomTypeProvider(base),
		cel.OptionalTypes(cel.OptionalTypesVersion(4)), ext.Strings(), cel.CrossTypeNumericComparisons(true),
		cel.Variable("value", cel.DynType), cel.Variable("output", cel.DynType), cel.Variable("input", cel.DynType),
	)
	require.NoError(t, err)
	return env
}

// source draws an expression that often means something.
func source(r *rapid.T, depth int, locals []string) string {
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(r, "pick") }
	sub := func() string { return source(r, depth-1, locals) }
	if depth <= 0 {
		leaves := []string{
			"1", "2", "0", "-1", "2u", "1.5", "0.0", "true", "false", "null", `"a"`, `""`, `"ab,c"`, `'é'`, `b"a"`, "[]", "{}",
			"value", "output", "input.a", "value.n", "value.s", "value.l", "value.m", "value.l[0]", `value["s"]`, "input.missing",
			"value.?m", "value.?x", "value.l[?9]", "9223372036854775807", "string", "optional.none()",
		}
		return pick(append(leaves, locals...)...)
	}
	switch rapid.IntRange(0, 15).Draw(r, "form") {
	case 0, 1, 2:
		return fmt.Sprintf("(%s %s %s)", sub(), pick("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"), sub())
	case 3:
		return fmt.Sprintf("(%s ? %s : %s)", sub(), sub(), sub())
	case 4:
		return pick("!", "-") + sub()
	case 5:
		return fmt.Sprintf("[%s, %s]", sub(), sub())
	case 6:
		return fmt.Sprintf(`{"a": %s, "b": %s}`, sub(), sub())
	case 7:
		return fmt.Sprintf("%s(%s)", pick("size", "int", "double", "string", "type", "uint", "bool", "dyn", "optional.of"), sub())
	case 8:
		x := fmt.Sprintf("x%d", len(locals))
		body := source(r, depth-1, append(locals[:len(locals):len(locals)], x))
		return fmt.Sprintf("[%s, %s].%s(%s, %s)", sub(), sub(), pick("map", "filter", "all", "exists", "exists_one"), x, body)
	case 9:
		x := fmt.Sprintf("x%d", len(locals))
		body := source(r, depth-1, append(locals[:len(locals):len(locals)], x))
		return fmt.Sprintf("dyn(%s).map(%s, %s)", sub(), x, body)
	case 10:
		return fmt.Sprintf("dyn(%s).%s(%s)", sub(), pick("contains", "startsWith", "endsWith", "split", "indexOf", "join", "substring", "orValue", "hasValue"), sub())
	case 11:
		return fmt.Sprintf("dyn(%s).%s()", sub(), pick("trim", "lowerAscii", "upperAscii", "join", "hasValue", "value", "size"))
	case 12:
		return fmt.Sprintf(`dyn(%s).replace(%s, %s)`, sub(), sub(), sub())
	case 13:
		return fmt.Sprintf("%s[%s]", sub(), sub())
	case 14:
		return fmt.Sprintf(`dyn(%s).matches("%s")`, sub(), pick("a", "^a", "[a-z]+$", "(a|é)*", ""))
	}
	return fmt.Sprintf("dyn(%s).%s", sub(), pick("a", "b", "n", "?a", "?b.c"))
}

// If an expression has a result, it is that of CEL; and if CEL has one, so has this
// package, except for what is left out on purpose.
func TestMeaningIsThatOfCEL(t *testing.T) {
	env := stock(t)
	vars := Vars{
		"value": map[string]any{
			"n": json.Number("3"), "s": "ab,c", "l": []any{json.Number("1"), "a", nil, json.Number("2.5")},
			"m": map[string]any{"a": json.Number("1"), "b": []any{true}},
		},
		"output": []any{"a", "b"},
		"input":  map[string]any{"a": json.Number("-7")},
	}
	rapid.Check(t, func(r *rapid.T) {
		src := source(r, rapid.IntRange(0, 4).Draw(r, "depth"), nil)
		c, bad := compile(src, Transform)
		ast, issues := env.Compile(src)
		if bad != nil {
			if issues.Err() == nil && !strings.Contains(bad.Message, "stands twice") && !strings.Contains(bad.Message, "undefined type") {
				_, err := env.Program(ast)
				require.Error(r, err, "%s: refused (%v), but CEL takes it", src, bad)
			}
			return
		}
		require.NoError(r, issues.Err(), src)
		program, err := env.Program(ast)
		require.NoError(r, err, src)
		out, _, err := program.Eval(map[string]any(vars))
		var want any
		if err == nil {
			want, err = newBudget().result(out, 0)
		}
		got, bad := c.eval(vars, newBudget(), 0)
		switch {
		case bad != nil && strings.Contains(bad.Message, "walked"):
		case bad != nil && err == nil:
			r.Fatalf("%s: fails (%v), but CEL gives %v", src, bad, want)
		case bad == nil && err != nil:
			r.Fatalf("%s: gives %v, but CEL fails: %v", src, got, err)
		case bad == nil:
			if diff := cmp.Diff(want, got); diff != "" {
				r.Fatalf("%s: (-CEL +ours)\n%s", src, diff)
			}
		}
	})
}

// The faster parser accepts what the library's default one accepts, and reads it
// the same.
func FuzzParsers(f *testing.F) {
	for _, s := range []string{
		`value.a.b[0] == 1 ? "x" : 'y'`, "a.?b[?c].orValue({'k': [1u, 0x1F, 1e3]})", `r"\d" + b'x' + """q"""`, "!-1 < -2 && !!x || y in [1,]",
		"value.`a-b`.map(x, x, y).filter(i, i)", "has(a.b) && a.exists_one(x, x)", "// c\n1", "in", "a.in", "a.for", ".a.b(1)", "f()(1)",
		"1 + + 2", "- - 1", "-9223372036854775808", "9223372036854775808", "1.e", ".5", "a.b.c{d: 1}", "{?'a': b}", "[?a]", "x.all(1, y)",
	} {
		f.Add(s)
	}
	env, err := environmentOf(Transform)
	require.NoError(f, err)
	other, err := parser.NewParser(
		parser.EnableOptionalSyntax(true), parser.Macros(env.cel.Macros()...),
		parser.MaxRecursionDepth(MaxNesting), parser.ExpressionSizeCodePointLimit(MaxSource), parser.MaxExpressionNodeCount(maxNodes),
	)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 300 {
			return
		}
		text := common.NewTextSource(src)
		fast, errs := env.parser.Parse(text)
		slow, slowErrs := other.Parse(text)
		if len(errs.GetErrors()) > 0 || len(slowErrs.GetErrors()) > 0 {
			return
		}
		if a, b := debug.ToDebugString(fast.Expr()), debug.ToDebugString(slow.Expr()); a != b {
			t.Fatalf("%q is read as\n%s\nand as\n%s", src, a, b)
		}
	})
}

// A path is read without CEL; it must mean what CEL says.
func TestPathsMeanWhatCELSays(t *testing.T) {
	env := stock(t)
	vars := Vars{
		"value":  map[string]any{"a": map[string]any{"b": []any{json.Number("1"), map[string]any{"c": "x"}}, "for": true}, "n": nil},
		"output": []any{}, "input": "s",
	}
	rapid.Check(t, func(r *rapid.T) {
		src := rapid.SampledFrom([]string{"value", "output", "input", "args", " value"}).Draw(r, "name")
		for range rapid.IntRange(0, 4).Draw(r, "steps") {
			src += rapid.SampledFrom([]string{".a", ".b", ".c", ".n", ".for", ".in", ".true", "[0]", "[1]", "[01]", "[-1]", "[99]", ". a", ".a_1", "[ 0]", `["a"]`}).Draw(r, "step")
		}
		c, bad := compile(src, Transform)
		ast, issues := env.Compile(src)
		require.Equal(r, issues.Err() == nil, bad == nil, "%s: %v, CEL: %v", src, bad, issues.Err())
		if bad != nil {
			return
		}
		program, err := env.Program(ast)
		require.NoError(r, err)
		out, _, err := program.Eval(map[string]any(vars))
		got, bad := c.eval(vars, newBudget(), 0)
		require.Equal(r, err == nil, bad == nil, "%s: %v, CEL: %v", src, bad, err)
		if bad == nil {
			want, err := newBudget().result(out, 0)
			require.NoError(r, err)
			require.Empty(r, cmp.Diff(want, got), src)
		}
	})
}
