package expr_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/expr"
	"chimera.ai/engine/schemas"
)

// writer writes expressions over names of known shapes.
type writer struct {
	r     *rapid.T
	names []named
}

type named struct {
	text  string
	shape *shape
}

func (w *writer) pick(of ...string) string { return pick(w.r, of...) }

// path writes a selection, and gives the shape of what it selects, or nil.
func (w *writer) path() named {
	at := pick(w.r, w.names...)
	for range rapid.IntRange(0, 3).Draw(w.r, "steps") {
		s := at.shape
		if s == nil {
			break
		}
		switch {
		case len(s.keys) > 0 && rapid.IntRange(0, 9).Draw(w.r, "wrong") > 0:
			k := pick(w.r, sortedKeys(s.keys)...)
			at = named{member(at.text, k), s.keys[k]}
		case s.item != nil:
			at = named{at.text + "[" + w.pick("0", "0", "1", "2") + "]", s.item}
		case rapid.IntRange(0, 9).Draw(w.r, "wrong") == 0:
			at = named{member(at.text, pick(w.r, keyNames...)), nil}
		default:
			return at
		}
	}
	return at
}

func member(text, key string) string {
	if strings.Contains(key, "-") {
		return text + `["` + key + `"]`
	}
	return text + "." + key
}

// split returns the path to the last selected key.
func split(path string) (before, key string, ok bool) {
	i := strings.LastIndex(path, ".")
	if i < 0 || strings.HasSuffix(path, "]") {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

func (w *writer) number(depth int) string {
	if depth <= 0 {
		if p := w.path(); rapid.IntRange(0, 2).Draw(w.r, "path") > 0 && (p.shape == nil || p.shape.kind == "number" || rapid.IntRange(0, 5).Draw(w.r, "any") == 0) {
			return p.text
		}
		return w.pick("0", "1", "2", "-3", "2.5", "0.1", "10.0", "1000000007", "9223372036854775807", "1e300")
	}
	switch rapid.IntRange(0, 10).Draw(w.r, "number") {
	case 10:
		return fmt.Sprintf("decimal(%s, %s)", w.number(depth-1), w.pick("0", "2", "18", "-1", w.number(depth-1)))
	case 0, 1, 2, 3:
		return fmt.Sprintf("%s %s %s", w.number(depth-1), w.pick("+", "-", "*", "/", "%"), w.number(depth-1))
	case 4:
		return fmt.Sprintf("(%s %s %s)", w.number(depth-1), w.pick("+", "-", "*", "/", "%"), w.number(depth-1))
	case 5:
		return "size(" + pick(w.r, w.text(depth-1), w.list(depth-1), w.path().text) + ")"
	case 6:
		return "-(" + w.number(depth-1) + ")"
	case 7:
		return w.pick("int", "double") + "(" + pick(w.r, w.number(depth-1), w.text(depth-1)) + ")"
	case 8:
		return fmt.Sprintf("%s.indexOf(%s)", w.text(depth-1), w.text(0))
	}
	return w.any(depth)
}

func (w *writer) text(depth int) string {
	if depth <= 0 {
		if p := w.path(); rapid.IntRange(0, 2).Draw(w.r, "path") > 0 && (p.shape == nil || p.shape.kind == "text" || rapid.IntRange(0, 5).Draw(w.r, "any") == 0) {
			return p.text
		}
		return w.pick(`"a"`, `""`, `"x,y"`, `"é"`, `"12"`)
	}
	switch rapid.IntRange(0, 9).Draw(w.r, "text") {
	case 0, 1:
		return fmt.Sprintf("(%s + %s)", w.text(depth-1), w.text(depth-1))
	case 2:
		return "string(" + pick(w.r, w.number(depth-1), w.cond(depth-1), w.text(depth-1), w.path().text) + ")"
	case 3:
		return fmt.Sprintf("%s.substring(%s)", w.text(depth-1), w.pick("0", "1", "0, 1", "1, 3", "2, 1", w.number(depth-1)))
	case 4:
		return fmt.Sprintf("%s.%s()", w.text(depth-1), w.pick("trim", "lowerAscii", "upperAscii"))
	case 5:
		return fmt.Sprintf("%s.replace(%s, %s)", w.text(depth-1), w.text(0), w.text(0))
	case 6:
		return fmt.Sprintf("%s.join(%s)", w.list(depth-1), w.text(0))
	}
	return w.any(depth)
}

func (w *writer) list(depth int) string {
	if depth <= 0 {
		if p := w.path(); rapid.IntRange(0, 2).Draw(w.r, "path") > 0 && (p.shape == nil || p.shape.kind == "list" || rapid.IntRange(0, 5).Draw(w.r, "any") == 0) {
			return p.text
		}
		return w.pick("[]", "[1, 2]", `["a"]`, "[dyn(1), dyn('a')]", "[1.0, 2.5]", `"a,b".split(",")`)
	}
	x := fmt.Sprintf("x%d", len(w.names))
	if rapid.IntRange(0, 9).Draw(w.r, "shadow") == 0 {
		x = w.pick("value", "output", "i")
	}
	switch rapid.IntRange(0, 6).Draw(w.r, "list") {
	case 0:
		return fmt.Sprintf("[dyn(%s), dyn(%s)]", w.any(depth-1), w.any(depth-1))
	case 1, 2:
		over, inner := w.over(depth-1, x)
		return fmt.Sprintf("%s.map(%s, %s)", over, x, inner.any(depth-1))
	case 3:
		over, inner := w.over(depth-1, x)
		return fmt.Sprintf("%s.filter(%s, %s)", over, x, inner.cond(depth-1))
	case 4:
		over, inner := w.over(depth-1, x)
		return fmt.Sprintf("%s.map(%s, %s, %s)", over, x, inner.cond(depth-1), inner.any(depth-1))
	case 5:
		return fmt.Sprintf("(%s + %s)", w.list(depth-1), w.list(depth-1))
	}
	return w.any(depth)
}

// over writes a list to walk, and what can be written of its items.
func (w *writer) over(depth int, x string) (string, *writer) {
	item := (*shape)(nil)
	text := ""
	if p := w.path(); p.shape != nil && p.shape.item != nil {
		text, item = p.text, p.shape.item
	} else {
		text = w.list(depth)
	}
	inner := &writer{r: w.r, names: slices.Clone(w.names)}
	inner.names = slices.DeleteFunc(inner.names, func(n named) bool { return n.text == x })
	// Twice, so that it is used more often.
	inner.names = append(inner.names, named{x, item}, named{x, item})
	return text, inner
}

func (w *writer) cond(depth int) string {
	p := w.path()
	if depth <= 0 {
		if before, key, ok := split(p.text); ok && rapid.Bool().Draw(w.r, "has") {
			return "has(" + member(before, key) + ")"
		}
		if p.shape != nil && p.shape.kind == "bool" {
			return p.text
		}
		return w.pick("true", p.text+" == null", p.text+` == "a"`, p.text+` == 3`, p.text+` != 0`, `"a" in dyn(`+p.text+`)`, p.text+` in ["a", "b", "circle"]`, p.text+" == false",
			"type("+p.text+") == "+w.pick("int", "double", "string", "list", "map", "null_type", "bool", "type(1)"), "dyn("+p.text+") > 0", p.text+" >= 0.5", p.text+" < 100", "size("+p.text+") > 0", "0 < size("+p.text+")",
			p.text+`.matches("^[0-9]{1,9}$")`, p.text+" == 0.5", p.text+" != 2.0")
	}
	x := fmt.Sprintf("x%d", len(w.names))
	switch rapid.IntRange(0, 9).Draw(w.r, "cond") {
	case 0, 1:
		return fmt.Sprintf("(%s %s %s)", w.cond(depth-1), w.pick("&&", "||"), w.cond(depth-1))
	case 2:
		return "!(" + w.cond(depth-1) + ")"
	case 3:
		over, inner := w.over(depth-1, x)
		return fmt.Sprintf("%s.%s(%s, %s)", over, w.pick("all", "exists", "exists_one"), x, inner.cond(depth-1))
	case 4:
		return fmt.Sprintf("dyn(%s) %s %s", w.number(depth-1), w.pick("<", "<=", ">", ">=", "==", "!="), w.number(depth-1))
	case 5:
		return fmt.Sprintf("dyn(%s) %s %s", w.any(depth-1), w.pick("==", "!="), w.any(depth-1))
	case 6:
		return fmt.Sprintf("%s.%s(%s)", w.text(depth-1), w.pick("contains", "startsWith", "endsWith"), w.text(0))
	case 7:
		return fmt.Sprintf("(%s ? %s : %s)", w.cond(depth-1), w.cond(depth-1), w.cond(depth-1))
	}
	return w.cond(0)
}

func (w *writer) any(depth int) string {
	p := w.path()
	if depth <= 0 {
		return p.text
	}
	before, key, ok := split(p.text)
	switch rapid.IntRange(0, 11).Draw(w.r, "any") {
	case 0:
		if ok {
			return fmt.Sprintf("(has(%s) ? dyn(%s) : dyn(%s))", p.text, w.use(p, depth-1), w.any(depth-1))
		}
	case 1:
		if ok {
			return fmt.Sprintf("dyn(%s.?%s).orValue(dyn(%s))", before, key, w.any(depth-1))
		}
	case 2, 3:
		return fmt.Sprintf("(%s ? dyn(%s) : dyn(%s))", w.cond(depth-1), w.any(depth-1), w.any(depth-1))
	case 4:
		return fmt.Sprintf("(type(%s) == %s ? dyn(%s) : dyn(%s))", p.text, w.pick("int", "double", "string", "list", "map"), w.use(p, depth-1), w.any(depth-1))
	case 5:
		return fmt.Sprintf(`{"k": %s, "l": %s}`, w.any(depth-1), w.any(depth-1))
	case 6:
		if ok {
			return fmt.Sprintf("dyn(%s.?%s.optMap(v, %s)).orValue(dyn(%s))", before, key, (&writer{w.r, append(slices.Clone(w.names), named{"v", p.shape}, named{"v", p.shape})}).any(depth-1), w.any(depth-1))
		}
	case 7:
		return fmt.Sprintf("dyn(%s[?%s]).orValue(dyn(%s))", p.text, w.pick("0", "1", "-1", `"a"`, `"kind"`, w.number(0)), w.any(depth-1))
	case 8:
		return fmt.Sprintf("(size(%s) > %s ? dyn(%s[%s]) : dyn(%s))", p.text, w.pick("0", "1", "2"), p.text, w.pick("0", "1"), w.any(depth-1))
	case 9:
		return w.number(depth)
	case 10:
		return w.text(depth)
	case 11:
		return pick(w.r, w.list, w.cond)(depth)
	}
	return p.text
}

// use writes something with a value that is guarded.
func (w *writer) use(p named, depth int) string {
	return pick(w.r, p.text, p.text+" + 1", p.text+` + "x"`, "size("+p.text+")", "dyn("+p.text+") > 1", p.text+".a", p.text+"[0]", p.text+" * 2", "10 / "+p.text, w.any(depth))
}

// draw is one case: the types of names, values of them, and the writer.
func drawCase(r *rapid.T) (expr.Typing, expr.Vars, *writer) {
	output := drawShape(r, 3)
	ty := expr.Typing{Types: expr.Types{}}
	w := &writer{r: r}
	vars := expr.Vars{}
	all := map[string]*shape{"output": output, "input": drawShape(r, 2)}
	out := output.draw(r)
	vars["output"], vars["input"] = out, all["input"].draw(r)
	switch m, ok := out.(map[string]any); {
	case rapid.IntRange(0, 3).Draw(r, "port") == 0:
		ty.Port = "$"
		all["value"], vars["value"] = output, out
	case ok && len(m) > 0 && output.keys != nil && rapid.Bool().Draw(r, "related"):
		for _, k := range sortedKeys(output.keys) {
			if v, has := m[k]; has {
				ty.Port, all["value"], vars["value"] = k, output.keys[k], v
			}
		}
	}
	if all["value"] == nil {
		all["value"] = drawShape(r, 3)
		vars["value"] = all["value"].draw(r)
	}
	for _, name := range []string{"value", "output", "input"} {
		text, err := json.Marshal(all[name].schema)
		require.NoError(r, err)
		s, err := schemas.Compile(text)
		require.NoError(r, err)
		if err := s.Validate(vars[name]); err != nil {
			// A part that accepts anything may break a tag of oneOf.
			r.Skip("not a value of the shape")
		}
		ty.Types[name] = s
		w.names = append(w.names, named{name, all[name]})
	}
	return ty, vars, w
}

// Where the check finds nothing, evaluation does not fail, and its value
// satisfies the schema that was inferred.
func TestWhatIsCheckedDoesNotFail(t *testing.T) {
	var checked, refused, witnesses int
	rapid.Check(t, func(r *rapid.T) {
		ty, vars, w := drawCase(r)
		src := pick(r, w.any, w.number, w.text, w.list, w.cond)(rapid.IntRange(0, 4).Draw(r, "depth"))
		whole := "${" + src + "}"
		if rapid.IntRange(0, 9).Draw(r, "inside") == 0 {
			whole = "<" + whole + ">"
		}
		tmpl, bad := expr.CompileTemplate(whole, expr.Transform)
		if bad != nil {
			return
		}
		rewritten, result, problems := tmpl.Check(ty)
		if len(problems) > 0 {
			refused++
			for _, p := range problems {
				if p.Name == "" {
					continue
				}
				witnesses++
				require.NoError(r, ty.Types[p.Name].Validate(p.Witness), "%s: %v is no value of %s", src, p.Witness, p.Name)
			}
			return
		}
		checked++
		again, bad := expr.CompileTemplate(rewritten, expr.Transform)
		require.Empty(r, bad, "%s becomes %s", src, rewritten)
		v, err := again.Eval(vars)
		if err != nil {
			r.Fatalf("%s becomes %s, and fails: %v\nvalue: %v\noutput: %v\ninput: %v", src, rewritten, err, vars["value"], vars["output"], vars["input"])
		}
		if err := result.Validate(v); err != nil {
			r.Fatalf("%s gives %v, which is not of the schema that was inferred: %v", src, v, err)
		}
		// A converted expression needs no further conversion, and nothing more is known of
		// it.
		twice, _, problems := again.Check(ty)
		require.Empty(r, problems, "%s becomes %s", src, rewritten)
		require.Equal(r, rewritten, twice)
	})
	t.Logf("%d checked, %d refused, %d witnesses", checked, refused, witnesses)
}

// What is known where a condition was true, or false, holds there.
func TestWhatIsNarrowedHolds(t *testing.T) {
	var narrowed int
	rapid.Check(t, func(r *rapid.T) {
		ty, vars, w := drawCase(r)
		src := w.cond(rapid.IntRange(0, 4).Draw(r, "depth"))
		p, err := expr.CompilePredicate(src, expr.When)
		if err != nil {
			return
		}
		source, problems := p.Check(ty)
		if len(problems) > 0 {
			return
		}
		q, err := expr.CompilePredicate(source, expr.When)
		require.NoError(r, err)
		holds, err := q.EvalBool(vars)
		require.NoError(r, err, "%s on %v", src, vars)
		after := p.Narrow(ty, holds)
		for name, s := range after.Types {
			if s != ty.Types[name] {
				narrowed++
			}
			require.NoError(r, s.Validate(vars[name]), "%s is %v for %s = %v", src, holds, name, vars[name])
		}
	})
	t.Logf("%d narrowed", narrowed)
}
