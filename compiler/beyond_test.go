package compiler

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// past compiles without refusing what the engine cannot run yet, to see what the
// earlier passes report.
func past(t *testing.T, file string) diag.Diagnostics {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, ds := Check(Source{Name: file, Text: text}, testCatalog(t), testPolicy(t))
	return ds
}

// TestBeyond: a plan without errors is refused only because the engine cannot run
// it yet.
func TestBeyond(t *testing.T) {
	require.Empty(t, show(past(t, "testdata/later/payment.yaml")))
	for _, d := range past(t, "testdata/later/later.yaml") {
		require.NotEqual(t, diag.PlanNotSupported, d.Code, show(diag.Diagnostics{d}))
	}
}

// TestChildren: a plan has the same digest alone and as a part of another, and
// is pinned wherever it is run.
func TestChildren(t *testing.T) {
	const file = "testdata/later/calls.yaml"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	p, ds := Check(Source{Name: file, Text: text}, testCatalog(t), nil)
	require.Empty(t, show(ds))
	require.Len(t, p.Children, 2)
	docs := strings.Split(string(text), "---\n")
	core := plan.DigestOf(encode(t, mustCompile(t, file, []byte(docs[2]))))
	inner, ds := Check(Source{Name: file, Text: []byte(docs[1] + "---\n" + docs[2])}, testCatalog(t), nil)
	require.Empty(t, show(ds))
	require.Equal(t, core, inner.Nodes[1].Plan)
	require.Equal(t, plan.DigestOf(encode(t, inner)), p.Nodes[1].Plan)
	require.Equal(t, core, p.Nodes[2].Plan)
	var digests []string
	for _, c := range p.Children {
		digests = append(digests, c.Digest)
	}
	require.ElementsMatch(t, []string{core, p.Nodes[1].Plan}, digests)

	// A sub-plan that is in no document cannot be pinned.
	alone, ds := Check(Source{Name: file, Text: []byte(docs[1])}, testCatalog(t), nil)
	require.Nil(t, alone)
	require.Equal(t, diag.PlanNotSupported, ds[0].Code)
}

// TestSharedBarrier: nodes behind one barrier wait for the union of their rules.
func TestSharedBarrier(t *testing.T) {
	src := `
apiVersion: chimera/v1
kind: Plan
name: shared
version: "1"
agent: agent-42
allow: [pure, committing]
input_schema: {type: object}
output_schema: {type: object}
nodes:
  - {id: a, template: engine/pass, effect_class: committing, commit_policy: {barrier: b, approval: {groups: [{role: risk, min: 1}, {role: finance, min: 1}], expires_in_ms: 5000, exclude: [zoe], remind_every_ms: 3600000, escalate_after_ms: 1500, to: [{role: cfo, min: 2}]}}}
  - {id: b, template: engine/pass, effect_class: committing, commit_policy: {barrier: b, approval: {groups: [{role: finance, min: 3}], expires_in_ms: 2000, exclude: [adam, zoe], remind_every_ms: 86400000, escalate_after_ms: 1000, to: [{role: cfo, min: 1}, {role: board, min: 1}]}}}
  - {id: c, template: engine/pass, effect_class: committing, commit_policy: {barrier: b}}
  - {id: d, template: engine/pass, effect_class: committing, commit_policy: {approval: {groups: [{role: risk, min: 2}]}}}
  - {id: e, template: engine/pass, effect_class: committing, commit_policy: {}}
edges: [$input -> a, $input -> b, $input -> c, $input -> d, $input -> e]
`
	p, ds := Check(Source{Name: "shared", Text: []byte(src)}, testCatalog(t), nil)
	require.Empty(t, show(ds))
	require.Equal(t, []plan.Barrier{
		{ID: "b", Members: []int{1, 2, 3}, Groups: []plan.Group{{Role: "finance", Min: 3}, {Role: "risk", Min: 1}}, ExpiresInMS: 2000, Exclude: []string{"adam", "zoe"},
			FollowUp: plan.FollowUp{RemindEveryMS: 3600000, EscalateAfterMS: 1000, To: []plan.Group{{Role: "board", Min: 1}, {Role: "cfo", Min: 2}}}},
		{Members: []int{4}, Groups: []plan.Group{{Role: "risk", Min: 2}}},
	}, p.Barriers)
	require.Equal(t, -1, p.Nodes[5].Commit.Barrier)
}

// TestVerifyWithoutInput: a verifying node that requires nothing is called with
// an empty object.
func TestVerifyWithoutInput(t *testing.T) {
	src := `
apiVersion: chimera/v1
kind: Plan
name: verified
version: "1"
agent: agent-42
allow: [pure, committing]
input_schema: {type: object}
output_schema: {type: object}
nodes:
  - {id: pay, template: engine/pass, effect_class: committing, commit_policy: {verify: {node: ping, executed: "true"}}}
  - {id: ping, template: engine/pass, input_schema: {type: object, properties: {n: {type: integer}}}}
edges: [$input -> pay]
`
	p, ds := Check(Source{Name: "verified", Text: []byte(src)}, testCatalog(t), nil)
	require.Empty(t, show(ds))
	require.Equal(t, &plan.Verify{Node: 2, With: []byte("{}"), Executed: "true"}, p.Nodes[1].Commit.Verify)
}
