package host_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
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
			if at > 0 && c.policy != floor {
				lengthy.Skip(t)
			}
			a := actBy(t, "book", pages, sagaCatalog, c.policy)
			eve, fay := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance")
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
			list, err := a.ledger().Approvals(t.Context(), b.ID, ledger.Page{})
			require.NoError(t, err)
			used, err := a.ledger().Consumptions(t.Context(), list[0].ID)
			require.NoError(t, err)
			require.Len(t, used, 2)
			require.ElementsMatch(t, []string{r.Actions[0].Invocation, undo.Invocation}, []string{used[0].Invocation, used[1].Invocation})
			for _, e := range events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) {
				again := a.reset(t, run, e.GetEventId())
				f := failureOf(t, stage.Await(t, a.h.Client(), again, nil))
				require.Equal(t, []string{"first"}, f.Compensated)
			}
			require.Len(t, a.written(t), 2, "a reset does nothing twice")

			// An auditor sees that it was undone, and by whose approval.
			report := a.verifies(t)
			require.Zero(t, report.Standing)
			a.again(t)
		})
	}
}

// TestOnlyWhatFollowsIsApproved: whoever asks in a run's place, and whoever has stolen the
// guardian's key, undoes with other people's approval nothing but what they have approved.
func TestOnlyWhatFollowsIsApproved(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "book", pages, sagaCatalog, sagaPolicy)
	eve := a.enrol(t, "eve", "editor")
	waits := strings.Replace(fmt.Sprintf(coveredPlan, 100, "", "${args.line}"), `engine/fail, with: {message: "it ends here"}`, "engine/sleep, with: {ms: 600000}, timeout_ms: 700000", 1)
	digest := a.publish(t, waits)
	run, other := a.start(t, "done", digest, `{"line":"a"}`), a.start(t, "waits", digest, `{"line":"b"}`)
	b := a.asked(t, run, 1)[0]
	a.asked(t, other, 1)
	signed := eve.Sign(t, b, approval.Approve, nil)
	require.True(t, a.update(t, run, signed).Accepted)
	stage.Until(t, "the line is written", func() bool {
		return slices.ContainsFunc(stage.State(t, a.h.Client(), run).Nodes, func(n contract.NodeStatus) bool { return n.ID == "first" && n.State == contract.Succeeded })
	})
	rogue := worker.New(a.h.Client(), "rogue", worker.Options{})
	rogue.RegisterWorkflow(rogueDecide)
	rogue.RegisterWorkflow(rogueCall)
	require.NoError(t, rogue.Start())
	defer rogue.Stop()

	const edge = 2
	value := func(text string) contract.Value { return contract.Value(text) }
	call := func(of client.WorkflowRun, args, output string) contract.Call {
		c := contract.Call{Run: contract.Identity{Workflow: of.GetID(), Root: of.GetRunID(), Origin: of.GetRunID()}, Plan: digest, Node: 2, Visit: 1, Request: "rogue"}
		c.Deliveries = []contract.Delivery{{Edge: edge, Args: value(args), Output: value(output)}, {Edge: edge + 1, Args: value(args), Output: value(output)}}
		return c
	}
	alone := call(run, `{"line":"a"}`, `{"page":7}`)
	alone.Deliveries = alone.Deliveries[:1]
	asks := 0
	decide := func(c contract.Call) (out contract.Decided) {
		t.Helper()
		asks++
		asked, err := a.h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: runID(t, fmt.Sprint("decide", asks)), TaskQueue: "rogue"}, rogueDecide, c)
		require.NoError(t, err)
		require.NoError(t, stage.Await(t, a.h.Client(), asked, &out))
		return out
	}
	for name, c := range map[string]contract.Call{
		"other arguments":              call(run, `{"line":"z"}`, `{"page":7}`),
		"another output":               call(run, `{"line":"a"}`, `{"page":8}`),
		"not all of it":                alone,
		"what has not happened":        call(other, `{"line":"b"}`, `{"page":7}`),
		"what another run has written": call(other, `{"line":"a"}`, `{"page":7}`),
	} {
		out := decide(c)
		require.Nil(t, out.Permit, name)
		require.NotNil(t, out.Waiting, name)
	}

	// With the guardian's key, and the approval of the effect.
	r, _, err := approval.ParseRequest(b.Request)
	require.NoError(t, err)
	undo := r.Actions[0].Undo[0].Invocation
	salt := []byte("0123456789abcdef")
	steal := func(c contract.Call, invocation, input string) error {
		now := time.Now()
		permit, err := trust.SignPermit(a.guardianKey(t), trust.Permit{
			Deployment: "test", Audience: a.Root.Audience, Guardian: "guardian", Invocation: invocation, Decision: invocation + "/9",
			Call: trust.Call{Operation: "book/erase", Input: []byte(input)}.Digest(salt), Issued: ledger.At(now), Expires: ledger.At(now.Add(trust.MaxPermit)),
		})
		require.NoError(t, err)
		c.Permit = &contract.Permit{Envelope: permit, Salt: salt, Approved: &contract.Approved{Request: b.Request, Envelopes: []json.RawMessage{signed}}}
		asks++
		asked, err := a.h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: runID(t, fmt.Sprint("steal", asks)), TaskQueue: "rogue"}, rogueCall, c)
		require.NoError(t, err)
		return stage.Await(t, a.h.Client(), asked, nil)
	}
	require.ErrorContains(t, steal(call(run, `{"line":"z"}`, `{"page":7}`), undo, `{"line":"z","page":7}`), "people have approved something else")
	require.ErrorContains(t, steal(call(run, `{"line":"a"}`, `{"page":8}`), undo, `{"line":"a","page":8}`), "people have approved something else")
	require.Equal(t, []string{"write a"}, a.written(t))

	// What follows is approved, once.
	good := call(run, `{"line":"a"}`, `{"page":7}`)
	good.Permit = decide(good).Permit
	require.NotNil(t, good.Permit)
	for range 2 {
		asks++
		asked, err := a.h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: runID(t, fmt.Sprint("call", asks)), TaskQueue: "rogue"}, rogueCall, good)
		require.NoError(t, err)
		require.NoError(t, stage.Await(t, a.h.Client(), asked, nil))
	}
	require.Equal(t, []string{"write a", `erase {"line":"a","page":7}`}, a.written(t))
	require.Nil(t, decide(good).Permit, "it has happened")
	for _, r := range []client.WorkflowRun{run, other} {
		require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), r.GetID(), ""))
		require.Error(t, stage.Await(t, a.h.Client(), r, nil))
	}
	require.Len(t, a.written(t), 2, "nothing is undone twice")
}

// TestUndoIsApprovedAfterTheDeadline: a run whose deadline has passed waits for those who must
// approve what undoes its effect, and nobody pauses that.
func TestUndoIsApprovedAfterTheDeadline(t *testing.T) {
	stage.Parallel(t)
	floor := strings.Replace(sagaPolicy, "unmodelled:", `approval: {floor: [{operations: [book/erase], groups: [{role: finance, min: 1}]}]}
unmodelled:`, 1)
	a := actBy(t, "book", pages, sagaCatalog, floor)
	fay := a.enrol(t, "fay", "finance")
	run := a.start(t, "late", a.publish(t, `{apiVersion: chimera/v1, kind: Plan, name: late, version: "1", agent: tester, allow: [pure, committing], limits: {deadline_ms: 10000},
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: first, template: book/write, commit_policy: {}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: last, template: engine/sleep, with: {ms: 60000}, timeout_ms: 90000}],
  edges: [$input.line -> first.line, first -> last,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`), `{"line":"a"}`)
	undo := a.asked(t, run, 1)[0]
	require.Equal(t, "node/back", undo.Name)
	require.Greater(t, time.Until(undo.ExpiresAt.Time()), 24*time.Hour)
	s := a.pause(t, run, `{}`)
	require.Equal(t, []any{false, contract.CodeEnding}, []any{s.Accepted, s.Code}, s.Detail)
	require.True(t, a.update(t, run, fay.Sign(t, undo, approval.Approve, nil)).Accepted)
	f := failureOf(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, contract.Deadline, f.Kind, f.Message)
	require.Equal(t, []string{"first"}, f.Compensated)
	a.replays(t, run)
}
