package compiler

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/policy"
)

// TestAttended: an irreversible node compiles if somebody is asked to approve it, or if the
// bundle says that nobody needs to be; where only a lift may ask, that is a warning.
func TestAttended(t *testing.T) {
	const bundle = `{apiVersion: chimera/v1, kind: PolicyBundle, version: "1", APPROVAL allow: [{effects: [irreversible], agents: [agent-42] UNATTENDED}]}`
	const source = `{apiVersion: chimera/v1, kind: Plan, name: mail, version: "1", agent: agent-42, allow: [pure, committing, irreversible], input_schema: {type: object}, output_schema: {type: object}, nodes: [
  {id: check, template: engine/pass},
  {id: send, template: engine/pass, effect_class: irreversible TRUST, commit_policy: {COMMIT prechecks: [check], rollback: {none: gone}}},
  {id: file, template: engine/pass, effect_class: committing, commit_policy: {FILE}}], edges: [check -> file]}`
	const floor, said = `approval: {floor: [{effects: [irreversible], groups: [{role: a, min: 1}]}]},`, "nobody is asked to approve the irreversible node `send`"
	for name, c := range map[string]struct {
		approval, unattended, trust, commit, file string
		says                                      string
		severity                                  diag.Severity
	}{
		"nobody":                     {says: said, severity: diag.Error},
		"unattended":                 {unattended: ", unattended: true"},
		"attended":                   {unattended: ", unattended: false", says: said, severity: diag.Error},
		"tainted is not unattended":  {unattended: ", tainted: true", says: said, severity: diag.Error},
		"the plan":                   {commit: "approval: {groups: [{role: a, min: 1}]},"},
		"another at the barrier":     {commit: "barrier: b,", file: "barrier: b, approval: {groups: [{role: a, min: 1}]}"},
		"nobody at the barrier":      {commit: "barrier: b,", says: "`send` waits for approval, and nobody is asked", severity: diag.Error},
		"the floor":                  {approval: floor},
		"the floor of another agent": {approval: strings.Replace(floor, "effects: [irreversible]", "agents: [agent-7]", 1), says: said, severity: diag.Error},
		"a review":                   {trust: ", trust_requirement: manual_review", approval: "approval: {review: [{role: a, min: 1}]},"},
		"a review by nobody":         {trust: ", trust_requirement: manual_review", says: said, severity: diag.Error},
		"a review of other nodes":    {approval: "approval: {review: [{role: a, min: 1}]},", says: said, severity: diag.Error},
		"a lift":                     {approval: "approval: {lift: {causal_risk: [a]}},", says: said, severity: diag.Warning},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("APPROVAL", c.approval, "UNATTENDED", c.unattended).Replace(bundle)
			b, ds := policy.Parse(Source{Name: "policy.yaml", Text: []byte(text)})
			require.Empty(t, show(ds))
			p, ds := Compile(Source{Name: "plan.yaml", Text: []byte(strings.NewReplacer("TRUST", c.trust, "COMMIT", c.commit, "FILE", c.file).Replace(source))}, testCatalog(t), b)
			if c.says == "" {
				require.Empty(t, show(ds))
				require.NotNil(t, p)
				return
			}
			require.Len(t, ds, 1, show(ds))
			require.Equal(t, c.severity, ds[0].Severity)
			require.Contains(t, ds[0].Summary, c.says)
			require.Equal(t, "send", ds[0].Node)
			require.NotEmpty(t, ds[0].Suggestion)
			require.Equal(t, c.severity == diag.Error, p == nil)
		})
	}
}
