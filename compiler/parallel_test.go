package compiler

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/internal/parallel"
)

// The same within a compilation.
func TestCompilerHandsItsPanicsOver(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	c := newCompilation(Source{Name: "p.yaml", Text: []byte(plainHead + "nodes:\n" + repeated(20, "  - {id: n%, template: engine/pass}"))}, testCatalog(t), nil)
	defer func() {
		crash, ok := recover().(*parallel.Crash)
		require.True(t, ok)
		require.Equal(t, "injected", crash.Value)
	}()
	c.run(append(passes[:1:1], pass{"broken", func(*compilation) { parallel.Do(20, func(int) { panic("injected") }) }}))
	t.Error("the panic did not arrive")
}

// What the compiler takes apart recursively is bounded in depth, since no program
// survives the overflow of its stack: here is the deepest of everything.
func TestDeepest(t *testing.T) {
	// An eighth of what Go gives a goroutine.
	defer debug.SetMaxStack(debug.SetMaxStack(128 << 20))
	flow := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	node := func(fields string) string {
		return plainHead + "nodes:\n  - {id: a, template: engine/pass, " + fields + "}\n"
	}
	object := "input_schema: {type: object, properties: {x: {}}}, "
	cat := testCatalog(t)
	for _, depth := range []int{1, 30, 60, 110, 120, 130, 100_000} {
		for name, text := range map[string]string{
			"flow":         plainHead + "x: " + flow(depth, "[", "1", "]"),
			"never closed": plainHead + "x: " + strings.Repeat("{a: ", depth),
			"JSON":         flow(depth, `{"a":`, "1", "}"),
			"schema":       node("input_schema: " + flow(depth, "{type: object, properties: {x: ", "{}", "}}")),
			"items":        node("input_schema: {type: object, properties: {x: " + flow(depth, "{items: ", "{}", "}") + "}}"),
			"not":          node("input_schema: {type: object, properties: {x: " + flow(depth, "{not: ", "{}", "}") + "}}"),
			"anyOf":        node("input_schema: {type: object, properties: {x: " + flow(depth, "{anyOf: [{type: string}, ", "{}", "]}") + "}}"),
			"with":         node(object + "with: {x: " + flow(depth, "[", "1", "]") + "}"),
			"template":     node(object + "with: {x: " + flow(depth, "{a: ", "'${input.x}'", "}") + "}"),
			"parentheses":  node(object + "with: {x: '${" + flow(depth, "(", "1", ")") + "}'}"),
			"lists":        node(object + "with: {x: '${" + flow(depth, "[", "1", "]") + "}'}"),
			"calls":        node(object + "with: {x: '${" + flow(depth, "size(", "[]", ")") + "}'}"),
			"minuses":      node(object + "with: {x: '${" + strings.Repeat("-", depth) + "1}'}"),
			"negations":    node(object + "with: {x: '${" + strings.Repeat("!", depth) + "true}'}"),
			"conditions":   node(object + "with: {x: '${" + strings.Repeat("true ? 1 : ", depth) + "1}'}"),
			"sums":         node(object + "with: {x: '${1" + strings.Repeat(" + 1", depth) + "}'}"),
			"fields":       node(object + "with: {x: '${input" + strings.Repeat(".x", depth) + "}'}"),
			"indexes":      node(object + "with: {x: '${input" + strings.Repeat("[0]", depth) + "}'}"),
			"loops":        node(object + "with: {x: '${" + flow(depth, "[1].map(y, ", "1", ")") + "}'}"),
			"and":          node(object + "with: {x: '${true" + strings.Repeat(" && true", depth) + "}'}"),
			"definitions":  plainHead + "defs:\n" + chained(min(depth, lint.MaxUses)) + node("input_schema: {type: object}")[len(plainHead):],
			"chain":        plainHead + "nodes:\n" + repeated(min(depth, 20_000), "  - {id: n%, template: engine/pass}") + "edges:\n" + circle(min(depth, 20_000)),
		} {
			p, ds := Compile(Source{Name: "fuzz.yaml", Text: []byte(text)}, cat, nil)
			checkResult(t, []byte(text), p, ds)
			if depth == 100_000 && name != "definitions" && name != "chain" {
				require.Nil(t, p, "%s, %d deep", name, depth)
			}
		}
	}
}
