package compiler

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/policy"
)

// TestTaintedIrreversible: an irreversible effect that needs no approval takes nothing tainted unless
// the operator accepts that, too.
func TestTaintedIrreversible(t *testing.T) {
	const source = `{apiVersion: chimera/v1, kind: Plan, name: mail, version: "1", agent: agent-42, allow: [pure, irreversible], input_schema: {type: object}, output_schema: {type: object},
  nodes: [{id: read, template: files/read_file, with: {path: a}}, {id: send, template: engine/pass, effect_class: irreversible, commit_policy: {COMMIT prechecks: [read], rollback: {none: gone}}}],
  edges: [EDGE]}`
	const value, constant = "read.$ -> send.$", "read -> send"
	for name, c := range map[string]struct {
		allow, commit, edge string
		refused             bool
	}{
		"a tainted value":                    {"unattended: true", "", value, true},
		"a tainted value, accepted":          {"unattended: true, tainted: true", "", value, false},
		"a tainted value, approved":          {"unattended: true", "approval: {groups: [{role: a, min: 1}]},", value, false},
		"a constant":                         {"unattended: true", "", constant, false},
		"a tainted value that people attend": {"tainted: false", "approval: {groups: [{role: a, min: 1}]},", value, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, ds := policy.Parse(Source{Name: "policy.yaml", Text: []byte(`{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", allow: [{effects: [irreversible], agents: [agent-42], ` + c.allow + `}]}`)})
			require.Empty(t, show(ds))
			_, ds = Compile(Source{Name: "plan.yaml", Text: []byte(strings.NewReplacer("COMMIT", c.commit, "EDGE", c.edge).Replace(source))}, testCatalog(t), b)
			if !c.refused {
				require.Empty(t, show(ds))
				return
			}
			require.Len(t, ds, 1, show(ds))
			require.Equal(t, diag.EffectTainted, ds[0].Code)
			require.Equal(t, "send", ds[0].Node)
		})
	}
}

// TestTaintOfWhatVerifies: what an effect has returned, as the node says that verifies it, is as
// tainted as the output of that node.
func TestTaintOfWhatVerifies(t *testing.T) {
	const source = `{apiVersion: chimera/v1, kind: Plan, name: mail, version: "1", agent: agent-42, allow: [pure, committing], input_schema: {type: object}, output_schema: {type: object},
  nodes: [{id: first, template: engine/pass}, {id: look, template: LOOK, with: {WITH}},
    {id: send, template: engine/pass, effect_class: committing, commit_policy: {verify: {node: look, with: {WITH}, executed: "true" OUTPUT}}},
    {id: next, template: engine/pass, effect_class: committing, commit_policy: {}}],
  edges: [first -> send, send.$ -> next.$]}`
	for name, c := range map[string]struct {
		look, with, output string
		tainted            bool
	}{
		"a tool":                          {"files/read_file", "path: a", `, output: {said: "${output.content}"}`, true},
		"a tool whose output is not used": {"files/read_file", "path: a", "", false},
		"the engine's own skill":          {"engine/pass", "path: a", `, output: {said: "${output}"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, ds := Compile(Source{Name: "plan.yaml", Text: []byte(strings.NewReplacer("LOOK", c.look, "WITH", c.with, "OUTPUT", c.output).Replace(source))}, testCatalog(t), nil)
			var tainted []string
			for _, d := range ds {
				if d.Code == diag.EffectTainted {
					tainted = append(tainted, d.Node)
				} else {
					require.NotEqual(t, diag.Error, d.Severity, show(ds))
				}
			}
			if c.tainted {
				require.Equal(t, []string{"next"}, tainted, show(ds))
			} else {
				require.Empty(t, tainted, show(ds))
			}
		})
	}
}
