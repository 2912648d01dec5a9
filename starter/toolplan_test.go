package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/host"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// TestToolPlans: a plan that is printed for a tool compiles without findings by the policy that stands in its
// comment, and gives the tool all that it takes.
func TestToolPlans(t *testing.T) {
	const path = `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`
	const answer = `{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`
	tool := func(name string, effect plan.EffectClass, status plan.Trust, input, output string) catalog.Template {
		return catalog.Template{
			ProviderType: plan.MCP, Provider: "files", Operation: name, Mode: plan.Deter, Effect: effect, Trust: status, Status: status, TimeoutMS: 1000,
			Retry: plan.Retry{MaxAttempts: 1, InitialMS: 1000, MultiplierMilli: 2000, MaxMS: 1000}, InputSchema: json.RawMessage(input), OutputSchema: json.RawMessage(output),
		}
	}
	waived := tool("waived", plan.Irreversible, plan.AllowAuto, path, answer)
	waived.Commit = &catalog.CommitPolicy{Waived: "sent is sent"}
	for _, c := range []struct {
		name string
		catalog.Template
		others []catalog.Template
		want   []string
		// fails is the one error that is left.
		fails string
	}{
		{name: "required", Template: tool("read", plan.Pure, plan.AllowAuto, path, answer), want: []string{`with: {"path": "${input.path}"}`}},
		{
			name: "optional", Template: tool("read", plan.Pure, plan.AllowAuto, `{"type":"object","properties":{"path":{"type":"string"},"head":{"type":"number"},"a b":{"type":"number"}},"required":["path"]}`, answer),
			want: []string{`- {edge: "$input.head -> call.head", required: false}`, `- {from_node: "$input", from_port: "a b", to_node: "call", to_port: "a b", edge_type: data, required: false}`},
		},
		{
			name: "optional alone", Template: tool("read", plan.Pure, plan.AllowAuto, `{"type":"object","properties":{"head":{"type":"number"}}}`, answer),
			want: []string{"- $input -> call\n", `$input.head -> call.head`},
		},
		{name: "an answer with options", Template: tool("read", plan.Pure, plan.AllowAuto, path, `{"type":"object","properties":{"ok":{},"x":{}},"required":["ok"]}`), want: []string{`- {edge: "call.x -> $output.x", required: false}`}},
		{name: "any answer", Template: tool("read", plan.Pure, plan.AllowAuto, path, `{"type":"object"}`), want: []string{`- call.$ -> $output.$`}},
		{name: "nothing", Template: tool("read", plan.Pure, plan.AllowAuto, `{"type":"object","properties":{}}`, answer)},
		{
			name: "without a type", Template: tool("read", plan.Pure, plan.AllowAuto, `{"properties":{"path":{"type":"string"}},"required":["path"]}`, answer),
			want: []string{`with: {"path": "${input.path}"}`, "# The tool does not say that it takes an object", `"type":"object"`},
		},
		{
			name: "without properties", Template: tool("read", plan.Pure, plan.AllowAuto, `{"$schema":"http://json-schema.org/draft-07/schema#"}`, answer),
			want: []string{`- $input.$ -> call.$`, "# The tool does not name what it takes"},
		},
		{name: "reviewed", Template: tool("read", plan.Pure, plan.ManualReview, path, answer), want: []string{"agent: ", "review: [{role: approver, min: 1}]"}},
		{name: "staged", Template: tool("put", plan.Staged, plan.AllowAuto, path, answer), want: []string{"allow: [pure, staged]", "unmodelled: "}},
		{name: "committing", Template: tool("put", plan.Committing, plan.AllowAuto, path, answer), want: []string{"commit_policy: {}", "- $input -> call\n"}},
		{
			name: "irreversible", Template: tool("put", plan.Irreversible, plan.AllowAuto, path, answer), others: []catalog.Template{
				tool("read", plan.Pure, plan.AllowAuto, path, answer), tool("get", plan.Pure, plan.AllowAuto, path, answer), tool("get_x", plan.Pure, plan.ManualReview, path, answer),
			},
			want: []string{`template: "files/get"`, "prechecks: [look]", "approval: {groups: [{role: approver, min: 1}]}", "may_sign: "},
		},
		{
			name: "what looks takes something else", Template: tool("put", plan.Irreversible, plan.ManualReview, path, answer), others: []catalog.Template{
				tool("read", plan.Pure, plan.AllowAuto, `{"type":"object","properties":{"path":{"type":"integer"}},"required":["path"]}`, answer),
				tool("find", plan.Pure, plan.AllowAuto, `{"type":"object","properties":{"name":{"type":"integer"}},"required":["name"]}`, answer),
			},
			want: []string{`prechecks: [] # name a node that looks before the call, such as one of "files/find"`}, fails: "effect/prechecks",
		},
		{name: "nothing looks", Template: tool("put", plan.Irreversible, plan.ManualReview, path, answer), want: []string{"no operation of the server does"}, fails: "effect/prechecks"},
		{name: "what the catalog says", Template: waived, others: []catalog.Template{tool("read", plan.Pure, plan.AllowAuto, path, answer)}, want: []string{"prechecks: [look]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, all, err := host.Catalog(&catalog.Catalog{Templates: append(c.others, c.Template)}, nil)
			require.NoError(t, err)
			var out, said bytes.Buffer
			p := &Program{Stdout: &out, Stderr: &said}
			env := &environment{catalog: all}
			require.NoError(t, p.planOf(env, &c.Template))
			for _, want := range c.want {
				require.Contains(t, out.String(), want)
			}
			var needed string
			for _, m := range regexp.MustCompile(`(?m)^#   (.*)$`).FindAllStringSubmatch(out.String(), -1) {
				needed += m[1] + "\n"
			}
			if needed != "" {
				b, ds := policy.Parse(compiler.Source{Name: "policy", Text: []byte(needed)})
				require.Empty(t, ds)
				env.policy = b
			}
			_, ds, err := env.compile(compiler.Source{Name: "plan", Text: out.Bytes()})
			require.NoError(t, err)
			if c.fails != "" {
				require.Len(t, ds, 1)
				require.Equal(t, c.fails, string(ds[0].Code))
				require.Contains(t, said.String(), "does not compile yet")
				return
			}
			require.Empty(t, ds, out.String())
			again := new(bytes.Buffer)
			p.Stdout = again
			require.NoError(t, p.planOf(env, &c.Template))
			require.NotContains(t, again.String(), "PolicyBundle")
		})
	}
}
