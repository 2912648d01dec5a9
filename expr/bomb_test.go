package expr_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/expr"
)

// bombs are small expressions that would take minutes or gigabytes if work were
// counted after it is done, or not at all.
var bombs = map[string]string{
	"a list that holds itself twice, compared": `[value.list.map(x, [x, x])` + strings.Repeat(".map(x, [x, x])", 40) + `].all(v, v == v)`,
	"a list that holds itself twice, searched": `[1]` + strings.Repeat(".map(x, [x, x])", 60) + `.exists(v, v in [v])`,
	"a list that holds itself twice, returned": `[1]` + strings.Repeat(".map(x, [x, x])", 60),
	"a map that holds itself twice":            `[1]` + strings.Repeat(`.map(x, {"a": x, "b": x})`, 50) + `.all(v, v != v)`,
	"an optional that holds itself twice":      `[1]` + strings.Repeat(`.map(x, [optional.of(x), optional.of(x)])`, 40) + `.all(v, optional.of(v).hasValue(v))`,
	"a list that doubles":                      `[[1]]` + strings.Repeat(".map(x, x + x)", 45) + `[0].size()`,
	"a string that doubles":                    `["ab"]` + strings.Repeat(".map(x, x + x)", 40),
	"bytes that double":                        `[b"ab"]` + strings.Repeat(".map(x, x + x)", 40) + `.size()`,
	"text measured in loops":                   `value.list.map(a, value.list.map(b, size(value.text)))`,
	"text converted in loops":                  `value.list.map(a, value.list.map(b, bytes(value.text) == b"x"))`,
	"text compared in loops":                   `value.list.map(a, value.list.map(b, value.text + "a" == value.text + "b"))`,
	"text searched in loops":                   `value.list.map(a, value.list.map(b, value.text.contains("y")))`,
	"text ordered in loops":                    `value.list.map(a, value.list.map(b, value.text < value.text))`,
	"text collected in a loop":                 `value.list.map(a, value.text + value.text)`,
	"text split in loops":                      `value.list.map(a, value.text.split(""))`,
	"text joined":                              `value.list.map(a, "xxxxxxxxxx").join(value.text)`,
	"text replaced":                            `value.text.replace("x", value.text)`,
	"text changed in loops":                    `value.list.map(a, value.list.map(b, value.text.upperAscii().trim().substring(1).indexOf("y")))`,
	"a pattern over long text":                 `value.list.map(a, value.text.matches("(x+x+)+(x|y){1,100}z"))`,
	"lists compared in loops":                  `value.list.map(a, value.list.map(b, value.list == value.list))`,
	"lists searched in loops":                  `value.list.map(a, value.list.map(b, 2 in value.list))`,
	"maps compared in loops":                   `value.list.map(a, value.list.map(b, {"l": value.list} == {"l": value.list}))`,
	"options unwrapped in loops":               `value.list.map(a, value.list.map(b, optional.unwrap(value.list.map(c, optional.of(c)))))`,
	"two loops":                                `value.list.map(a, value.list.map(b, value.list.size() + a * b))`,
	"the same text many times":                 strings.Repeat("(", 50) + "value.text" + strings.Repeat("+value.text)", 50),
	"chained options":                          `optional.of(1)` + strings.Repeat(`.optMap(x, [x, x])`, 60),
	"a deep list":                              `[1]` + strings.Repeat(".map(x, [x])", 200),
	"parentheses":                              strings.Repeat("(", 4000) + "1" + strings.Repeat(")", 4000),
	"brackets":                                 strings.Repeat("[", 4000) + strings.Repeat("]", 4000),
	"braces":                                   strings.Repeat(`{"a":`, 1000),
	"signs":                                    strings.Repeat("-", 8000) + "1",
	"negations":                                strings.Repeat("!", 8000) + "true",
	"conditions":                               strings.Repeat("true ? 1 : ", 700) + "1",
	"conditions in conditions":                 strings.Repeat("true ? ", 1000) + "1" + strings.Repeat(": 1", 1000),
	"optional selections":                      "value" + strings.Repeat(".?a", 2500),
	"long numbers compared in loops":           `value.long.map(a, value.long.map(b, value.long.map(c, a == b || a < c)))`,
	"long numbers searched in loops":           `value.list.map(a, value.list.map(b, value.long == value.long || value.long[9] in value.long))`,
	"long numbers converted in loops":          `value.list.map(a, value.list.map(b, double(value.long[1]) == double(value.long[0])))`,
	"long numbers written in loops":            `value.list.map(a, value.list.map(b, string(value.long[1]) + string(value.long[0])))`,
	"fractions calculated in loops":            `value.list.map(a, value.list.map(b, value.long[1] * value.long[1] + value.long[1]))`,
	"maps built in loops":                      `value.list.map(a, value.list.map(b, {string(a): {string(b): value.text + "x"}}))`,
	"maps with many numbers as keys":           `value.list.map(a, value.list.map(b, {a: 1, b: 2, int(a) - int(b): 3} == {b: 2, a: 1, int(a) - int(b): 3}))`,
	"text parsed in loops":                     `value.list.map(a, value.list.map(b, double(value.digits) > 1.0))`,
	"text that is no number in loops":          `value.list.map(a, value.list.map(b, int(value.text) > 1 || true))`,
	"text that is no time in loops":            `value.list.map(a, value.list.map(b, timestamp(value.text) == dyn(duration(value.text)) || true))`,
	"a chain of replacements":                  `"a"` + strings.Repeat(`.replace("a", "aaaaaaaaaa")`, 30),
	"a chain of replaced nothings":             `"a"` + strings.Repeat(`.replace("", "aaaaaaaaaa")`, 30),
	"a chain of splits and joins":              `"ab"` + strings.Repeat(`.split("").join("aaaaaaaaaaaaaaaa")`, 30),
	"a map that doubles its text":              `[{"a": "xx"}]` + strings.Repeat(`.map(m, {"a": m.a + m.a})`, 40),
	"many patterns over text":                  `value.list.map(a, value.text.matches("x{100}y") || value.text.matches("(x|xx){50}y"))`,
	"optional values in loops":                 `value.list.map(a, value.list.map(b, value.?list[?int(a)].hasValue()))`,
	"garbage":                                  strings.Repeat("?:[({", 1600),
	"quotes":                                   strings.Repeat(`"'`, 4000),
}

func TestBombsGoOff(t *testing.T) {
	list := make([]any, 1000)
	for i := range list {
		list[i] = json.Number("1")
	}
	long := make([]any, 1000)
	for i := range long {
		long[i] = json.Number("0." + strings.Repeat("1234567890", 50))
	}
	long[0] = json.Number("1e300")
	vars := expr.Vars{"value": map[string]any{"list": list, "text": strings.Repeat("x", 1<<20),
		"digits": strings.Repeat("1", 300), "long": long}}
	for name, src := range bombs {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			tpl, bad := expr.CompileTemplate("${"+src+"}", expr.Transform)
			if len(bad) == 0 {
				_, err := tpl.Eval(vars)
				// The parser removes pairs of signs and negations.
				if name != "signs" && name != "negations" {
					require.Error(t, err)
				}
				t.Log(err)
			} else {
				t.Log(bad[0])
			}
			runtime.ReadMemStats(&after)
			// Without bounds each takes minutes, and more memory than there is.
			require.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(2048), "MiB allocated in total")
		})
	}
}

func TestResultsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	vars := expr.Vars{"input": map[string]any{"text": long}}
	many := make([]any, 17)
	for i := range many {
		many[i] = "${input.text}"
	}
	tpl, bad := expr.CompileTemplate(many, expr.With)
	require.Empty(t, bad)
	_, err := tpl.Eval(vars)
	require.ErrorContains(t, err, "the result is larger than")
	tpl, bad = expr.CompileTemplate(strings.Repeat("${input.text}", 17), expr.With)
	require.Empty(t, bad)
	_, err = tpl.Eval(vars)
	require.ErrorContains(t, err, "the result is larger than")
	tpl, bad = expr.CompileTemplate(many[:15], expr.With)
	require.Empty(t, bad)
	_, err = tpl.Eval(vars)
	require.NoError(t, err)

	deep := any("${input.text}")
	for range 200 {
		deep = []any{deep}
	}
	_, bad = expr.CompileTemplate(deep, expr.With)
	require.Len(t, bad, 1)
	require.Contains(t, bad[0].Message, "nests deeper")
}

func TestConcurrentEvaluation(t *testing.T) {
	// The errors that the library shares between evaluations come up here.
	sources := []string{
		`value.items.filter(i, i.p > 1).size() == 1`,
		`int(value) == 1 || timestamp(value) == value`,
		`[timestamp("9999-12-31T23:59:59Z") + duration("48h")].size() == 1`,
		`value.s.matches("^h") && value.names.join(",").split(",") == value.names`,
	}
	var wg sync.WaitGroup
	for _, src := range sources {
		p, err := expr.CompilePredicate(src, expr.When)
		require.NoError(t, err)
		v := vars(t, expr.When)
		want, wantErr := p.EvalBool(v)
		fresh, err := expr.CompilePredicate(src, expr.When)
		require.NoError(t, err)
		for range 4 {
			wg.Go(func() {
				for range 50 {
					got, gotErr := fresh.EvalBool(v)
					if got != want || (gotErr == nil) != (wantErr == nil) {
						t.Errorf("%s: %v %v, then %v %v", src, want, wantErr, got, gotErr)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}
