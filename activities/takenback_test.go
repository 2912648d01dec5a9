package activities_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// TestWhatAdminsTakeBack: what the admins make stricter after people were asked, the guardian
// heeds; what they take back after it has permitted a call, the role effects.
func TestWhatAdminsTakeBack(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	eve, fay := a.Enrol(t, "eve", "editor"), a.Enrol(t, "fay", "finance")
	asks := a.Publish(t, stage.ApprovedPlan)
	run := a.Start(t, "stricter", asks, `{"line":"one"}`)
	b := a.Asked(t, run, 1)[0]
	a.Sign(t, run, b, approval.Approve, eve)
	lax := a.Options.Policy
	a.Options.Policy = stage.Bundle(t, strings.NewReplacer("id: short", "id: shorter", "< 20", "< 3").Replace(stage.ActingPolicy))
	a.Again(t)
	a.Sign(t, run, b, approval.Approve, fay)
	f := a.Fails(t, run)
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Contains(t, f.Message, "REJECT, policy:shorter")
	require.Empty(t, a.Written(t))
	a.Options.Policy = lax
	a.Again(t)

	digest := a.Publish(t, stage.ActingPlan)
	keys := []string{a.Starter.Public()}
	permitted, taken := make(chan struct{}), make(chan struct{})
	stage.Instead(t, contract.QueueEffects, func(context.Context, any) (any, error) {
		permitted <- struct{}{}
		<-taken
		return nil, nil
	})
	for i, c := range []struct {
		take, back trust.Act
		says       string
	}{
		{&trust.SetAgentKeys{AgentID: "tester", Keys: []string{}}, &trust.SetAgentKeys{AgentID: "tester", Keys: keys, Vouching: keys}, "no key that may act for tester"},
		{&trust.RevokePublisher{ID: "ada"}, nil, `"ada", who is revoked`},
	} {
		run := a.Start(t, fmt.Sprint("permitted", i), digest, `{"line":"x"}`)
		<-permitted
		a.State(t, c.take)
		taken <- struct{}{}
		f := a.Fails(t, run)
		require.Equal(t, contract.Blocked, f.Kind, f.Message)
		require.Contains(t, f.Message, c.says)
		if c.back != nil {
			a.State(t, c.back)
		}
	}
	require.Empty(t, a.Written(t))
}

// TestPeopleAreAskedForAllAtOnce: where a policy that comes while people are asked objects to more,
// they are asked once more, for all of it together.
func TestPeopleAreAskedForAllAtOnce(t *testing.T) {
	t.Parallel()
	const letter, signed = `  - {id: letter, type: soft, operations: [book/write], require: 'action.inputs.line.startsWith("Dear")', message: "a line is no letter"}` + "\n",
		`  - {id: signed, type: soft, operations: [book/write], require: 'action.inputs.line.endsWith("Yours")', message: "nobody has signed it"}` + "\n"
	lifts := strings.Replace(stage.ActingPolicy, "unmodelled", `approval: {lift: {"policy:letter": [editor], "policy:signed": [editor]}}`+"\nunmodelled", 1)
	const open = `  - {id: open, type: soft, operations: [book/write], require: "true"}` + "\n"
	a := stage.ActBy(t, "book", stage.Writes, stage.ActingCatalog, lifts+letter+strings.Replace(open, "open", "signed", 1))
	eve := a.Enrol(t, "eve", "editor")
	run := a.Start(t, "more", a.Publish(t, stage.ActingPlan), `{"line":"one"}`)
	lifted := func(b ledger.Barrier) []string {
		r, _, err := approval.ParseRequest(b.Request)
		require.NoError(t, err)
		return r.Actions[0].Lifts
	}
	first := a.Asked(t, run, 1)[0]
	require.Equal(t, []string{"policy:letter"}, lifted(first))
	a.Options.Policy = stage.Bundle(t, lifts+letter+signed)
	a.Again(t)
	a.Sign(t, run, first, approval.Approve, eve)
	second := a.Next(t, run, first)
	require.Equal(t, []string{"policy:letter", "policy:signed"}, lifted(second))
	require.Empty(t, a.Written(t))
	a.Sign(t, run, second, approval.Approve, eve)
	require.NoError(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), 1)

	// The evidence names the approvals that counted, and no others.
	for n, want := range []string{"action decision trust", "action decision trust", "action approvals decision trust"} {
		d, err := a.Ledger().Decision(t.Context(), fmt.Sprintf("%s/%d", first.Actions[0].Invocation, n+1))
		require.NoError(t, err)
		packet, err := a.Ledger().Packet(t.Context(), d.Evidence)
		require.NoError(t, err)
		var parts []string
		for _, part := range packet.Parts {
			parts = append(parts, part.Name)
		}
		require.Equal(t, want, strings.Join(parts, " "), d.ID)
	}
	a.Verifies(t)
}

// TestTheStricterPolicyCounts: a policy that is activated while people are asked does not allow
// what that by which they were asked forbids by now.
func TestTheStricterPolicyCounts(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", checks, findCatalog, stage.ActingPolicy+"caps: {invocations_per_run: 1}\n")
	eve := a.Enrol(t, "eve", "editor")
	run := a.Start(t, "two", a.Publish(t, `{apiVersion: chimera/v1, kind: Plan, name: two, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: asks, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}]}, rollback: {none: "what is written stays"}}},
    {id: rest, template: book/find, with: {line: slow}},
    {id: other, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> asks.line, $input -> rest, rest -> other, $input.line -> other.line]}`), `{"line":"one"}`)
	b := a.Asked(t, run, 1)[0]
	require.NoError(t, os.WriteFile(a.Lines+".go", nil, 0o600))
	stage.Until(t, "the other call is made, with which the run has made the one that the policy allows", func() bool { return len(a.Written(t)) == 1 })
	a.Options.Policy = stage.Bundle(t, stage.ActingPolicy)
	a.Again(t)
	a.Sign(t, run, b, approval.Approve, eve)
	f := a.Fails(t, run)
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Equal(t, "asks", f.Node)
	require.Contains(t, f.Message, "cap:invocations_per_run")
	require.Len(t, a.Written(t), 1)
	a.Verifies(t)
}
