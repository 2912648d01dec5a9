package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

// coveredPlan writes a line that people approve, and then fails. How the line is erased is
// open: what the edge brings, and who must approve it.
const coveredPlan = `{apiVersion: chimera/v1, kind: Plan, name: covered%d, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: first, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}]}}},
    {id: back, template: book/erase, commit_policy: {approval: {groups: [{role: editor, min: 1}]%s}, rollback: {none: "gone"}}},
    {id: last, template: engine/fail, with: {message: "it ends here"}}],
  edges: [$input.line -> first.line, first -> last,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "%s"},
    {from_node: first, from_port: $compensate, to_node: back, to_port: page, edge_type: error, required: false, transform: "${output.page}"}]}`

// TestUndoIsApprovedWithItsEffect: who approves an effect approves what the plan says to undo
// it, if that follows from its arguments and its output, and if nobody else must approve it.
func TestUndoIsApprovedWithItsEffect(t *testing.T) {
	stage.Parallel(t)
	floor := strings.Replace(sagaPolicy, "unmodelled:", `approval: {floor: [{operations: [book/erase], groups: [{role: finance, min: 1}]}]}
unmodelled:`, 1)
	for at, c := range []struct {
		name, policy, asks, brings string
		again                      bool
	}{
		{"from the arguments and the output", sagaPolicy, "", "${args.line}", false},
		{"with a constant", sagaPolicy, "", "${args.line == '' ? '' : args.line}", false},
		{"from the plan's input", sagaPolicy, "", "${input.line}", true},
		{"from the failure", sagaPolicy, "", "${error == null ? args.line : args.line}", true},
		{"others exclude", sagaPolicy, `, exclude: [zoe]`, "${args.line}", true},
		{"the floor asks for more", floor, "", "${args.line}", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := actBy(t, "book", pages, sagaCatalog, c.policy)
			eve, fay := a.enrol(t, "Eve", "editor"), a.enrol(t, "Fay", "finance")
			digest := a.publish(t, fmt.Sprintf(coveredPlan, at, c.asks, c.brings))
			run := a.start(t, "run", digest, `{"line":"a"}`)
			b := a.asked(t, run, 1)[0]
			r, _, err := approval.ParseRequest(b.Request)
			require.NoError(t, err)
			require.Equal(t, !c.again, len(r.Actions[0].Undo) == 1)
			require.True(t, a.update(t, run, eve.Sign(t, b, approval.Approve, nil)).Accepted)
			if c.again {
				undo := a.asked(t, run, 1)[0]
				require.Equal(t, "node/back", undo.Name)
				require.True(t, a.update(t, run, eve.Sign(t, undo, approval.Approve, nil)).Accepted)
				if c.policy == floor {
					require.True(t, a.update(t, run, fay.Sign(t, undo, approval.Approve, nil)).Accepted)
				}
			}
			f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
			require.Equal(t, []string{"first"}, f.Compensated, f.Message)
			require.Equal(t, []string{"write a", `erase {"line":"a","page":7}`}, a.written(t))
			a.replays(t, run)
			if c.again || at > 0 {
				return
			}
			undo := r.Actions[0].Undo[0]
			require.Equal(t, approval.Undo{Node: "back", Operation: "book/erase", Invocation: undo.Invocation}, undo)
			list, err := a.h.Store().Ledger.Approvals(t.Context(), b.ID, ledger.Page{})
			require.NoError(t, err)
			used, err := a.h.Store().Ledger.Consumptions(t.Context(), list[0].ID)
			require.NoError(t, err)
			require.Len(t, used, 2)
			require.ElementsMatch(t, []string{r.Actions[0].Invocation, undo.Invocation}, []string{used[0].Invocation, used[1].Invocation})
			for _, e := range events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) {
				again := a.reset(t, run, e.GetEventId())
				f := failureOf(t, stage.Await(t, a.h.Client(), again, nil))
				require.Equal(t, []string{"first"}, f.Compensated)
			}
			require.Len(t, a.written(t), 2, "a reset does nothing twice")
		})
	}
}
