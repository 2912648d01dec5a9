package activities_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

// escalating is the plan of approvals by an editor, who is reminded every second.
const escalating = `{apiVersion: chimera/v1, kind: Plan, name: escalates, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: write, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}], remind_every_ms: 1000}, rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line, write.ok -> $output.ok]}`

// floorAfter is the policy by which the chief is asked, too, after so long.
func floorAfter(ms string) string {
	return strings.Replace(stage.ActingPolicy, "unmodelled", "approval: {floor: [{groups: [{role: editor, min: 1}], escalate_after_ms: "+ms+", to: [{role: chief, min: 1}]}]}\nunmodelled", 1)
}

// TestEscalation: people who do not sign are reminded, and after a while others must sign,
// too: on the store's clock, whoever asks, and by the policy that effects have.
func TestEscalation(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Writes, stage.ActingCatalog, floorAfter("2500"))
	eve, cid := a.Enrol(t, "eve", "editor"), a.Enrol(t, "cid", "chief")
	digest := a.Publish(t, escalating)
	run := a.Start(t, "late", digest, `{"line":"one"}`)
	a.Asked(t, run, 1)
	var b contract.BarrierStatus
	stage.Until(t, "it is escalated, and people are reminded", func() bool {
		s := stage.State(t, a.Client(), run)
		b = s.Barriers[0]
		// While the guardian reminds, it is what the node waits for.
		return b.EscalatedAt != "" && b.Reminded >= 2 && strings.Contains(s.Waiting[0].Detail, "escalated to 1 of chief since ")
	})
	both := []contract.Group{{Role: "chief", Min: 1}, {Role: "editor", Min: 1}}
	require.Equal(t, both, b.Missing)
	require.Equal(t, []contract.Group{{Role: "chief", Min: 1}}, b.EscalatedTo)
	require.NotEmpty(t, b.RemindedAt)
	stands, err := a.Ledger().Barrier(t.Context(), b.ID)
	require.NoError(t, err)
	require.False(t, stands.EscalatedAt.Time().Before(stands.EscalatesAt.Time()))
	require.Less(t, stage.Length(run), 30+12*(b.Reminded+2), "a reminder costs what a request to the guardian costs")

	v := a.Update(t, run, eve.Sign(t, stands, approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, contract.BarrierOpen, v.State)
	require.Equal(t, both[:1], v.Missing, "the first groups are not enough any more")
	require.Empty(t, a.Written(t))
	v = a.Update(t, run, cid.Sign(t, stands, approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, contract.BarrierApproved, v.State)
	require.NoError(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), 1)

	// An escalated group can end it, too.
	run = a.Start(t, "rejected", digest, `{"line":"two"}`)
	a.Asked(t, run, 1)
	stage.Until(t, "it is escalated", func() bool { return stage.State(t, a.Client(), run).Barriers[0].EscalatedAt != "" })
	stands, err = a.Ledger().Barrier(t.Context(), stage.State(t, a.Client(), run).Barriers[0].ID)
	require.NoError(t, err)
	require.Equal(t, contract.BarrierRejected, a.Update(t, run, cid.Sign(t, stands, approval.Reject, nil)).State)
	require.Error(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), 1)
}

// TestBeforeAnEscalation: who is asked later does not count before, however often the guardian
// is asked, and the first groups are enough.
func TestBeforeAnEscalation(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Writes, stage.ActingCatalog, floorAfter("3600000"))
	eve, cid := a.Enrol(t, "eve", "editor"), a.Enrol(t, "cid", "chief")
	digest := a.Publish(t, strings.Replace(escalating, "remind_every_ms: 1000", "remind_every_ms: 3600000", 1))
	run := a.Start(t, "early", digest, `{"line":"one"}`)
	b := a.Asked(t, run, 1)[0]
	require.Equal(t, b.OpenedAt.Time().Add(time.Hour).Round(time.Minute), b.EscalatesAt.Time().Round(time.Minute))
	for _, d := range []approval.Decision{approval.Approve, approval.Reject} {
		v := a.Update(t, run, cid.Sign(t, b, d, nil)) // each asks the guardian how the barrier stands
		require.Equal(t, string(approval.Ineligible), v.Code, v.Detail)
		require.Contains(t, v.Detail, "the role chief is asked from "+b.EscalatesAt.String()+" on")
	}
	_, err := a.Ledger().EscalateBarrier(t.Context(), b.ID)
	require.ErrorIs(t, err, ledger.ErrConflict)
	_, err = a.Ledger().RemindBarrier(t.Context(), b.ID)
	require.ErrorIs(t, err, ledger.ErrConflict)
	stands, err := a.Ledger().Barrier(t.Context(), b.ID)
	require.NoError(t, err)
	require.Nil(t, stands.EscalatedAt)
	require.Zero(t, stands.Reminded)
	require.Equal(t, contract.BarrierApproved, a.Update(t, run, eve.Sign(t, b, approval.Approve, nil)).State)
	require.NoError(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), 1)
}
