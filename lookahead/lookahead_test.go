package lookahead_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/lookahead"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

const operations = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: book, operation: read, mode: deter, effect_class: pure, status: allow_auto, trusted_output: true,
     timeout_ms: 1000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto,
     input_schema: {type: object, properties: {path: {type: string}}}, output_schema: {type: object, properties: {text: {type: string}, ok: {type: boolean}, note: {type: string}}, required: [text, ok]}}
  - {provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, status: allow_auto, trusted_output: true,
     timeout_ms: 1000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto,
     input_schema: {type: object, properties: {text: {type: string}, to: {type: string}}, required: [text]}, output_schema: {type: object, properties: {at: {type: integer}}, required: [at]},
     commit_policy: {rollback: {none: what is written stays}}}
  - {provider_type: skill, provider_name: book, operation: note, mode: deter, effect_class: staged, status: allow_auto, trusted_output: true,
     timeout_ms: 1000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto,
     input_schema: {type: object, properties: {text: {type: string, maxLength: 4}}, required: [text]}, output_schema: {type: object}}
`

// compiled compiles the nodes and edges of a plan.
func compiled(t *testing.T, body string) *plan.Plan {
	t.Helper()
	own, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(operations)})
	require.Empty(t, ds)
	_, all, err := host.Catalog(own, nil)
	require.NoError(t, err)
	p, ds := compiler.Compile(compiler.Source{Name: "plan.yaml", Text: []byte(`apiVersion: chimera/v1
kind: Plan
name: p
version: "1"
agent: a
allow: [pure, staged, committing]
input_schema: {type: object, properties: {text: {type: string}, n: {type: integer}}, required: [text, n]}
output_schema: {type: object}
` + body)}, all, nil)
	require.NotNil(t, p, "%v", ds)
	return p
}

// evaluated is engine/pass and engine/text.
func evaluated(n *plan.Node, input any) (any, bool, error) {
	registry, _, err := host.Catalog(nil, nil)
	if err != nil {
		return nil, false, err
	}
	s, ok := registry.Lookup(n.Provider, n.Operation)
	if !ok || n.Operation == "sleep" {
		return nil, false, nil
	}
	raw, err := plan.Canonical(input)
	if err != nil {
		return nil, false, err
	}
	out, err := s.Run(context.Background(), raw)
	if err != nil {
		return nil, false, err
	}
	v, err := schemas.Decode(out)
	return v, true, err
}

// told writes what was found, a line for each call: what it depends on, and its arguments or gaps.
func told(p *plan.Plan, o *lookahead.Outlook) string {
	var b strings.Builder
	for _, c := range o.Calls {
		b.WriteString(p.Nodes[c.Node].ID)
		if len(c.Depends) > 0 {
			b.WriteString(" if " + strings.Join(c.Depends, ", "))
		}
		switch {
		case c.Problem != "":
			b.WriteString(": fails")
		case c.Known():
			raw, _ := json.Marshal(c.Args)
			b.WriteString(": " + string(raw))
		default:
			for _, g := range c.Gaps {
				b.WriteString(" ?" + g.String())
			}
		}
		b.WriteString("\n")
	}
	for _, id := range o.Left {
		b.WriteString("not " + id + "\n")
	}
	for _, f := range o.Faults {
		b.WriteString("fault " + f.Node + "\n")
	}
	return b.String()
}

// TestFollow: what is known is evaluated as a run does, and the rest is named.
func TestFollow(t *testing.T) {
	for _, c := range []struct {
		name, body, want string
		assumed          map[string]string
	}{
		{name: "the input", body: `
nodes: [{id: w, template: book/write, with: {text: "${input.text + '!'}"}}]
edges: [$input -> w]`, want: `w: {"text":"hello!"}`},
		{name: "passed on", body: `
nodes: [{id: p, template: engine/pass}, {id: w, template: book/write}]
edges: [$input.text -> p.a, {edge: p.a -> w.text, transform: "${value} ${input.n}"}]`, want: `w: {"text":"hello 7"}`},
		{name: "the text of a tool", body: `
nodes: [{id: p, template: engine/text, with: {content: [{type: text, text: "${input.text}"}]}}, {id: w, template: book/write}]
edges: [$input -> p, p.text -> w.text]`, want: `w: {"text":"hello"}`},
		{name: "not known", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write}]
edges: [$input.text -> r.path, r.text -> w.text]`, want: "w ?r.text"},
		{name: "the whole is not known", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write}]
edges: [$input.text -> r.path, {edge: r.text -> w.text, transform: "${output.text}"}]`, want: "w ?r"},
		{name: "not known behind a pass", body: `
nodes: [{id: r, template: book/read}, {id: p, template: engine/pass}, {id: w, template: book/write}]
edges: [$input.text -> r.path, r.text -> p.a, $input.text -> p.b, p.a -> w.text, p.b -> w.to]`, want: "w ?r.text"},
		{name: "known beside a pass's unknown", body: `
nodes: [{id: r, template: book/read}, {id: p, template: engine/pass}, {id: w, template: book/write}]
edges: [$input.text -> r.path, r.text -> p.a, $input.text -> p.b, p.b -> w.text]`, want: `w: {"text":"hello"}`},
		{name: "assumed", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write}]
edges: [$input.text -> r.path, r.text -> w.text]`, assumed: map[string]string{"r.text": `"read"`}, want: `w: {"text":"read"}`},
		{name: "assumed whole", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write}]
edges: [$input.text -> r.path, {edge: r.text -> w.text, transform: "${output.text}"}]`, assumed: map[string]string{"r": `{"text": "all", "ok": true}`}, want: `w: {"text":"all"}`},
		{name: "a condition that is known", body: `
nodes: [{id: a, template: book/write, with: {text: few}}, {id: b, template: book/write, with: {text: many}}]
edges:
  - {edge: $input.n -> a.$start, when: "value < 5"}
  - {edge: $input.n -> b.$start, when: otherwise}`, want: "b: {\"text\":\"many\"}\nnot a"},
		{name: "a condition that is not", body: `
nodes: [{id: r, template: book/read}, {id: a, template: book/write, with: {text: few}}, {id: b, template: book/write, with: {text: many}}]
edges:
  - $input.text -> r.path
  - {edge: r.ok -> a.$start, when: "value"}
  - {edge: r.ok -> b.$start, when: otherwise}`, want: "a if r.ok -> a.$start: {\"text\":\"few\"}\nb if r.ok -> b.$start: {\"text\":\"many\"}"},
		{name: "the same, assumed", body: `
nodes: [{id: r, template: book/read}, {id: a, template: book/write, with: {text: few}}, {id: b, template: book/write, with: {text: many}}]
edges:
  - $input.text -> r.path
  - {edge: r.ok -> a.$start, when: "value"}
  - {edge: r.ok -> b.$start, when: otherwise}`, assumed: map[string]string{"r.ok": "true"}, want: "a: {\"text\":\"few\"}\nnot b"},
		{name: "which value comes is not known", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write}]
edges:
  - $input.text -> r.path
  - {edge: r.note -> w.text, required: false}
  - $input.text -> w.text`, want: "w if r.note -> w.text ?r.note"},
		{name: "an optional port", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write, with: {text: t}}]
edges:
  - $input.text -> r.path
  - {edge: r.note -> w.to, required: false}
  - r -> w`, want: "w if r.note -> w.to ?r.note"},
		{name: "an error edge", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write, with: {text: sorry}, commit_policy: {approval: {groups: [{role: x, min: 1}]}}}]
edges: [$input.text -> r.path, $input -> w, {edge: r.$error -> w.$start, required: true}]`, want: "w if r.$error -> w.$start: {\"text\":\"sorry\"}"},
		{name: "no error of what is assumed", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write, with: {text: sorry}, commit_policy: {approval: {groups: [{role: x, min: 1}]}}}]
edges: [$input.text -> r.path, $input -> w, {edge: r.$error -> w.$start, required: true}]`, assumed: map[string]string{"r.text": `"x"`}, want: "not w"},
		{name: "the error itself", body: `
nodes: [{id: r, template: book/read}, {id: w, template: book/write, commit_policy: {approval: {groups: [{role: x, min: 1}]}}}]
edges: [$input.text -> r.path, $input -> w, {edge: r.$error -> w.text, transform: "${error.message}"}]`, want: "w if r.$error -> w.text ?r.$error"},
		{name: "one after another", body: `
nodes: [{id: a, template: book/write}, {id: b, template: book/write, with: {text: b}}]
edges: [$input.text -> a.text, a -> b]`, want: "a: {\"text\":\"hello\"}\nb: {\"text\":\"b\"}"},
		{name: "arguments that do not fit", body: `
nodes: [{id: w, template: book/note}]
edges: [{edge: $input.text -> w.text, check: runtime}]`, want: "w: fails\nfault w"},
		{name: "an expression that fails", body: `
nodes: [{id: p, template: engine/pass}, {id: w, template: book/write, with: {text: t}}]
edges: [{edge: $input.n -> p.a, transform: "${[1, 2][value]}", check: runtime}, p -> w]`, want: "not w\nfault p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compiled(t, c.body)
			assumed := lookahead.Assumed{}
			for path, raw := range c.assumed {
				v, err := schemas.Decode([]byte(raw))
				require.NoError(t, err)
				require.NoError(t, assumed.Add(p, path, v))
			}
			require.NoError(t, assumed.Check(p))
			input := map[string]any{"text": "hello", "n": json.Number("7")}
			require.Equal(t, c.want+"\n", told(p, lookahead.Follow(p, input, assumed, evaluated)))
		})
	}
}
