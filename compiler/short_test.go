package compiler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

const shortHead = `apiVersion: chimera/v1
kind: Plan
name: p
version: 1.0.0
input_schema: {type: object, properties: {x: {type: string}, n: {type: integer}, value: {type: integer}, nick: {type: string}, fast: {type: boolean}}, required: [x, n, value, fast]}
output_schema: {type: object, properties: {o: true, p: true, who: {type: string}, b: true, c: true, d: true, all: true}}
`

// Plans in short forms that are right compile, and mean the same in every notation.
func TestShortForms(t *testing.T) {
	cat := testCatalog(t)
	for name, body := range map[string]string{
		"a hyphen before a word of other engines": `
nodes:
  - {id: user-inputs, template: engine/pass, with: {value: 1}}
  - {id: user-input, template: engine/pass, with: {value: 2}}
  - {id: b, template: engine/pass, when: nodes.user-inputs.value > 0, with: {k: "${nodes.user-inputs.value}", l: "${nodes['user-input'].value + 1}"}}`,
		"ids that are words of expressions": `
nodes:
  - {id: in, template: text/draft, with: {prompt: p}}
  - {id: "true", template: text/draft, with: {prompt: p}}
  - {id: int, template: text/draft, with: {prompt: "${type(input.n) == int ? 'a' : 'b'}"}}
  - {id: b, template: engine/pass, with: {k: "${[nodes['in'], nodes['true']]}", l: "${nodes.int.text}"}}`,
		"texts that look like marks": `
nodes:
  - {id: a, template: engine/pass, with: {v: "$${{ nodes.a.v }} is how it reads", w: "${{'note': 'see nodes.a.b', 'x': input.x}}"}}
  - {id: b, template: engine/pass, with: {v: "${{'k': nodes.a.v}}", w: "${{'k': [nodes.a.v, nodes.a.w]}}"}}`,
		"bound names": `
nodes:
  - {id: a, template: text/draft, with: {prompt: "${[{'a':{'b':'1'}}].map( // first\n nodes, nodes.a.b)[0]}"}}
  - {id: b, template: text/draft, with: {prompt: "${[{'a':{'b':'1'}}].map(steps // c\n , steps.a.b)[0]}"}}`,
		"commas in ports": `
nodes:
  - {id: a, template: engine/pass, input_schema: {type: object, properties: {"a,b": true}, required: ["a,b"]}, output_schema: {type: object, properties: {"a,b": true}, required: ["a,b"]}, with: {"a,b": 1}}
  - {id: b, template: engine/pass, input_schema: {type: object, properties: {"a,b": true}, required: ["a,b"]}, output_schema: {type: object, properties: {"a,b": true}, required: ["a,b"]}}
edges:
  - "a.a,b -> b.a,b"`,
		"no edges": `
nodes:
  - {id: a, template: text/draft, with: {prompt: "x"}}
edges: []`,
		"lists of nodes": `
nodes: [{id: c, template: text/draft, with: {prompt: p}}, {id: a, template: text/draft, with: {prompt: p}}, {id: d, template: text/draft, with: {prompt: p}}, {id: e, template: text/draft, with: {prompt: p}}, {id: b, template: text/draft, with: {prompt: p}}]
edges: [a -> b, "[a, b] -> c", "c -> d, e"]`,
		"constants of every kind": `
nodes:
  - {id: a, template: text/draft, with: {prompt: p}, when: input.fast}
  - {id: b, template: engine/pass, with: {a: "${nodes.a.text ?? -0}", b: "${nodes.a.text ?? -7}", c: "${nodes.a.text ?? true}", d: "${nodes.a.text ?? null}", e: "${nodes.a.text ?? 'x'}", f: "${nodes.a.text ?? \"y\"}", g: "${nodes.a.text ?? 'a\\'b'}", h: "${nodes.a.text ?? 1.5}", i: "<${nodes.a.text ?? input.x}>"}}`,
		"characters that YAML escapes": `
nodes:
  - {id: a, template: text/draft, with: {prompt: "x\u0085p \x7f ${nodes.b.text}"}}
  - {id: b, template: text/draft, with: {prompt: "p\ufeffq"}}`,
		"alternatives of the input": `
nodes:
  - {id: a, template: text/draft, with: {prompt: "${input.nick ?? 'none'}"}}
  - {id: b, template: text/draft, with: {prompt: "dear ${input.nick.trim() ?? input.x}!"}}
  - {id: c, template: text/draft, with: {prompt: "${input.nick ?? nodes.a.text}"}}
output: {who: "${input.nick ?? input.x}", b: "${nodes.b.text}", c: "${nodes.c.text}"}`,
		"words in texts": `
nodes:
  - {id: r, template: text/draft, with: {prompt: p}}
  - {id: m, template: engine/pass, with: {m: {a: "${nodes.r.text}", label: the value of an error, l: [output, "args: ${input.x}"]}}}
  - {id: o, template: text/draft, when: "nodes.r.text != '${'", with: {prompt: p}}`,
		"the opposite of one condition among several": `
nodes:
  - {id: a, template: engine/pass, when: input.fast, with: {v: x}}
  - {id: b, template: engine/pass, otherwise_of: a, with: {v: y}}
  - {id: c, template: engine/pass, when: input.n > 3, with: {v: z}}
  - {id: d, template: text/draft, otherwise_of: c, with: {prompt: "${nodes.a.v ?? nodes.b.v}"}}
output: {who: "${nodes.a.v ?? nodes.b.v}"}`,
		"the opposite where a port decides as well": `
nodes:
  - {id: a, template: engine/pass, with: {v: 1}}
  - {id: b, template: text/draft, when: nodes.a.v == 1, with: {prompt: p}}
  - {id: c, template: text/draft}
  - {id: d, template: text/draft, otherwise_of: b, with: {prompt: p}}
edges:
  - {edge: a.v -> c.prompt, when: "value == 2", transform: "${string(value)}"}`,
		"names that are taken": `
nodes:
  - {id: a, template: text/draft, with: {prompt: p}}
  - {id: b, template: text/draft, with: {prompt: p}}
  - {id: c-inputs, template: text/draft, with: {prompt: p}}
  - {id: c, template: text/draft, with: {prompt: "${nodes.a.text} ${nodes.b.text} ${nodes.c-inputs.text}"}}
  - {id: d, template: engine/pass, when: nodes.a.text == nodes.b.text, with: {a: "${nodes.a.text}${nodes.b.text}"}}
  - {id: a_text, template: text/draft, with: {prompt: p}}
output: {all: "${[nodes.a.text, nodes.a_text, nodes.c.text]}", d: "${nodes.c.text}"}`,
		"definitions": `
defs: {Money: {type: integer}, Tree: {type: object, properties: {l: {$ref: "#/defs/Tree"}}}}
nodes:
  - {id: a, template: engine/pass, input_schema: {type: object, properties: {x: true, m: {$ref: "#/defs/Money"}, t: {$ref: "#/defs/Tree"}}, required: [x, m, t]}, with: {x: 1, m: 2, t: {}}}
  - {id: b, template: engine/pass, with: {p: "${nodes.a.m}", q: "${nodes.a.t}", r: "${[nodes.a.m, nodes.a.t]}"}}
  - {id: c, template: engine/pass, with: "${nodes.a.t}"}
  - {id: d, template: engine/pass, with: {p: "${nodes.a.m}"}}
  - {id: e, template: engine/pass, with: {p: "${nodes.a.x ?? nodes.a.m}"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			src := Source{Name: "plan.yaml", Text: []byte(shortHead + body + "\n")}
			p, ds := Check(src, cat, nil)
			require.NotNil(t, p, "%s\n%s", src.Text, show(ds))
			sameInEveryNotation(t, src, cat, nil)
			if name == "characters that YAML escapes" {
				return // which JSON writes as they are
			}
			again, ds := Check(rewritten(t, src.Text), cat, nil)
			require.NotNil(t, again, show(ds))
			require.Equal(t, encode(t, p), encode(t, again))
		})
	}
}

// What is wrong with a short form is said in its terms.
func TestShortFindings(t *testing.T) {
	cat := testCatalog(t)
	for name, c := range map[string]struct{ body, want, never string }{
		"a misspelt port behind a hyphen": {`
nodes:
  - {id: user-inputs, template: text/draft, with: {prompt: p}}
  - {id: b, template: text/draft, with: {prompt: "${nodes.user-inputs.value}"}}`, "suggestion: \"${nodes.user-inputs.text}\"", ""},
		"alternatives are kept": {`
nodes:
  - {id: b, template: text/count, with: {text: q}, when: input.n > 3}
  - {id: k, template: text/draft, with: {prompt: "${nodes.b.words ?? 'none'}"}}`, "string(nodes.b.words) in the place of nodes.b.words", "`value`"},
		"what binds otherwise": {`
nodes:
  - {id: b, template: text/count, with: {text: q}}
  - {id: k, template: engine/pass, with: {v: "${nodes.b.words ?? 0 > 3 ? 10 : 20}"}}`, "beside `??`, a choice or a condition stands in parentheses", ""},
		"an object in a text": {`
nodes:
  - {id: a, template: engine/pass, with: {x: 1}}
  - {id: b, template: engine/pass, with: {k: "x ${nodes.a}"}}`, "Only strings, numbers and booleans can stand inside a string", "does not verify"},
		"no object": {`
nodes:
  - {id: a, template: engine/pass, with: "${input.x}"}`, "`a` takes an object, and what arrives may be none", ""},
		"what gathers is not named": {`
nodes:
  - {id: a, template: engine/pass, input_schema: {type: object, properties: {o: {type: string}}}, with: {o: x}}
  - {id: b, template: text/draft, with: {prompt: p}}
  - {id: c, template: text/draft, with: {prompt: "${nodes.a.o + nodes.b.text}"}}`, "nodes.a.?o.orValue(…)", "c-inputs.a_o, required"},
		"branches that never meet": {`
nodes:
  - {id: a, template: engine/pass, when: input.fast, with: {v: x}}
  - {id: b, template: engine/pass, otherwise_of: a, with: {v: x}}
  - {id: c, template: text/draft, with: {prompt: "${nodes.a.v} ${nodes.b.v}"}}`, "node `c` can never run", "c-inputs` can"},
		"an output of branches that never meet": {`
nodes:
  - {id: a, template: engine/pass, when: input.fast, with: {v: x}}
  - {id: b, template: engine/pass, otherwise_of: a, with: {v: x}}
output: {b: "${nodes.a.v + nodes.b.v}"}`, "`output.b` can never arrive", "output-inputs"},
		"a condition over several nodes that never holds": {`
nodes:
  - {id: a, template: text/count, with: {text: q}}
  - {id: b, template: text/count, with: {text: q}}
  - {id: c, template: text/draft, when: nodes.a.words > 3 && nodes.b.words < -1, with: {prompt: "${nodes.a.words}"}}`, "Nothing that the schemas of what it reads allow makes it true, so the node never runs.", "No `value`"},
		"a comment behind a reference": {`
nodes:
  - {id: a, template: text/draft, with: {prompt: p}}
  - id: b
    template: text/draft
    with:
      prompt: ${nodes.a.text} # what a says`, "quote this", ""},
		"a default in a loop": {`
cycles: {max_iterations: 3, on_exhausted: continue}
nodes:
  - {id: s, template: text/draft, with: {prompt: p}}
  - {id: h, template: text/draft, with: {prompt: "${nodes.s.text}"}}
  - {id: m, template: engine/pass, with: {k: "${nodes.h.text ?? 'x'}"}}
  - {id: l, template: text/count, with: {text: "${nodes.m.k}"}}
edges:
  - {edge: l.words -> h, when: value > 3, required: false}`, "`m` would run outside of the loop", "has 2 entries"},
		"the input by another name": {`
nodes:
  - {id: a, template: text/draft, with: {prompt: "${nodes.$input.x}"}}`, "", ""},
		"calls of the input": {`
nodes:
  - {id: a, template: text/draft, with: {prompt: "${input.size() ?? 'x'}"}}`, "what stands behind this is never taken", ""},
		"an empty list": {`
nodes:
  - {id: a, template: text/draft, after: [], with: {prompt: x}}`, "`after` names no node", ""},
		"marks around parts": {`
nodes:
  - {id: c, template: text/count, with: {text: q}}
  - {id: a, template: text/draft, when: "${nodes.c.words} > 3 && ${input.fast}", with: {prompt: x}}`, "when: \"nodes.c.words > 3 && input.fast\"", ""},
		"fields that are there": {`
nodes:
  - {id: c, template: text/count, retries: 3, retry_policy: {max_retries: 0}, timeout: 5s, timeout_ms: 100, with: {text: q}}`, "retry_policy: {max_retries: 3}", ""},
		"negative retries": {`
nodes:
  - {id: c, template: text/count, retries: -1, with: {text: q}}`, "retry_policy: {max_retries: 2}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := []byte(shortHead + c.body + "\n")
			p, ds := Check(Source{Name: "plan.yaml", Text: text}, cat, nil)
			require.Nil(t, p)
			require.Contains(t, strings.ReplaceAll(show(ds), `\"`, `"`), c.want)
			if c.never != "" {
				require.NotContains(t, show(ds), c.never)
			}
			for _, d := range ds {
				if d.Applicability == diag.Certain {
					_, faults := syntax.Parse("plan.yaml", edited(t, text, d.Edits), fields.Limits)
					require.Empty(t, faults, "%s\n%s", show(diag.Diagnostics{d}), edited(t, text, d.Edits))
				}
			}
		})
	}
}

// drawn is a plan of random short forms, most of which are sound.
func drawn(r *rand.Rand) string {
	ids := []string{"a", "b", "c", "d-1", "user-inputs", "c-inputs", "in", "true", "output-inputs", "nodes", "value", "a_v", "x2"}
	r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ids = ids[:3+r.IntN(len(ids)-3)]
	var b strings.Builder
	b.WriteString(shortHead + "nodes:\n")
	ref := func(i int) string {
		if r.IntN(4) == 0 {
			return fmt.Sprintf("nodes['%s'].v", ids[i])
		}
		return "nodes." + ids[i] + ".v"
	}
	entry := func(i int) string {
		one, other := ref(r.IntN(i)), ref(r.IntN(i))
		switch r.IntN(9) {
		case 0:
			return "text ${" + one + "} ${input.x}"
		case 1:
			return "${" + one + " ?? " + other + " ?? 'none'}"
		case 2:
			return "${" + one + " ?? input.nick ?? input.x}"
		case 3:
			return "${" + one + " + " + other + "}"
		case 4:
			return "${input.nick ?? " + one + "}"
		case 5:
			return "<${" + one + " ?? " + other + "}>"
		case 6:
			return "${input.x}"
		}
		return "${" + one + "}"
	}
	var conditional []string
	for i, id := range ids {
		fmt.Fprintf(&b, "  - {id: %q, template: engine/pass", id)
		with := "v: x"
		if i > 0 {
			with = fmt.Sprintf("v: %q", entry(i))
			switch r.IntN(8) {
			case 0:
				fmt.Fprintf(&b, ", when: \"%s != 'y'\"", ref(r.IntN(i)))
				conditional = append(conditional, id)
			case 1:
				b.WriteString(", when: input.fast")
				conditional = append(conditional, id)
			case 2:
				if len(conditional) > 0 {
					fmt.Fprintf(&b, ", otherwise_of: %q", conditional[r.IntN(len(conditional))])
				}
			case 3:
				fmt.Fprintf(&b, ", after: [%q]", ids[r.IntN(i)])
			case 4:
				with += fmt.Sprintf(", w: [%q, {u: %q}]", "${"+ref(r.IntN(i))+"}", "${"+ref(r.IntN(i))+"}")
			}
		}
		fmt.Fprintf(&b, ", with: {%s}}", with)
		if r.IntN(5) == 0 {
			b.WriteString(" # a comment")
		}
		b.WriteString("\n")
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "output: {o: %q, p: %q}\n", entry(len(ids)), entry(len(ids)))
	}
	if r.IntN(2) == 0 && len(ids) > 1 {
		fmt.Fprintf(&b, "edges:\n  # order\n  - %s -> %s\n", ids[0], ids[len(ids)-1])
	}
	return b.String()
}

// Random plans of short forms mean the same in every notation, and in any order of keys.
func TestDrawnShortForms(t *testing.T) {
	n := 2000
	if testing.Short() {
		n = 60
	}
	cat := testCatalog(t)
	sound := 0
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		src := Source{Name: "plan.yaml", Text: []byte(drawn(r))}
		if r.IntN(4) == 0 {
			src.Text = []byte(strings.ReplaceAll(string(src.Text), "\n", "\r\n"))
		}
		p, ds := Check(src, cat, nil)
		require.False(t, slices.ContainsFunc(ds, func(d diag.Diagnostic) bool { return strings.Contains(d.Summary, "compiler") }), "%s\n%s", src.Text, show(ds))
		sameInEveryNotation(t, src, cat, nil)
		if p == nil {
			continue
		}
		sound++
		again, ds := Check(rewritten(t, src.Text), cat, nil)
		require.NotNil(t, again, show(ds))
		require.Equal(t, encode(t, p), encode(t, again), "%s", src.Text)
	}
	require.Greater(t, sound, n/4)
}

// An entry of `output` that is not required does not wait for what others read.
func TestOptionalOutputs(t *testing.T) {
	const body = `
nodes:
  - {id: a, template: engine/pass, with: {v: x}}
  - {id: b, template: engine/pass, when: input.fast, with: {v: x}}
  - {id: c, template: engine/pass, otherwise_of: b, with: {v: x}}
output: {b: "${nodes.a.v + nodes.b.v}", c: "${nodes.a.v + nodes.c.v}"}
`
	p, ds := Check(Source{Name: "plan.yaml", Text: []byte(shortHead + body)}, testCatalog(t), nil)
	require.NotNil(t, p, show(ds))
	for _, e := range p.Edges {
		if e.To != len(p.Nodes)-1 {
			continue
		}
		read := map[string]bool{}
		for _, before := range p.Edges {
			if before.To == e.From {
				read[p.Nodes[before.From].ID] = true
			}
		}
		require.Equal(t, map[string]bool{"a": true, e.ToPort: true}, read)
	}
}
