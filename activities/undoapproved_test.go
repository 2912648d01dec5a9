package activities_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
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

// undoFloor is the policy by which somebody of finance approves whatever erases a line.
var undoFloor = strings.Replace(stage.SagaPolicy, "unmodelled:", `approval: {floor: [{operations: [book/erase], groups: [{role: finance, min: 1}]}]}
unmodelled:`, 1)

// TestUndoIsApprovedWithItsEffect: who approves an effect approves what the plan says to undo
// it, if that follows from its arguments and its output, and if nobody else must approve it.
func TestUndoIsApprovedWithItsEffect(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Pages, stage.SagaCatalog, stage.SagaPolicy)
	eve, fay := a.Enrol(t, "eve", "editor"), a.Enrol(t, "fay", "finance")
	for at, c := range []struct {
		name, asks, brings string
		again, floor       bool
	}{
		{"from the arguments and the output", "", "${args.line}", false, false},
		{"with a constant", "", "${args.line == '' ? '' : args.line}", false, false},
		{"from the plan's input", "", "${input.line}", true, false},
		{"from the failure", "", "${error == null ? args.line : args.line}", true, false},
		{"others exclude", `, exclude: [zoe]`, "${args.line}", true, false},
		{"the floor asks for more", "", "${args.line}", true, true},
	} {
		if c.floor {
			a.Options.Policy = stage.Bundle(t, undoFloor)
			a.Again(t)
		}
		line := fmt.Sprint(at)
		run := a.Start(t, line, a.Publish(t, fmt.Sprintf(coveredPlan, at, c.asks, c.brings)), `{"line":"`+line+`"}`)
		b := a.Asked(t, run, 1)[0]
		r, _, err := approval.ParseRequest(b.Request)
		require.NoError(t, err)
		require.Equal(t, !c.again, len(r.Actions[0].Undo) == 1, c.name)
		a.Sign(t, run, b, approval.Approve, eve)
		if c.again {
			undo := a.Asked(t, run, 1)[0]
			require.Equal(t, "node/back", undo.Name)
			a.Sign(t, run, undo, approval.Approve, eve)
			if c.floor {
				a.Sign(t, run, undo, approval.Approve, fay)
			}
		}
		f := a.Fails(t, run)
		require.Equal(t, []string{"first"}, f.Compensated, f.Message)
		written := a.Written(t)
		require.Equal(t, []string{"write " + line, `erase {"line":"` + line + `","page":7}`}, written[2*at:], c.name)
		if at > 0 {
			continue
		}
		undo := r.Actions[0].Undo[0]
		require.Equal(t, approval.Undo{Node: "back", Operation: "book/erase", Invocation: undo.Invocation}, undo)
		list, err := a.Ledger().Approvals(t.Context(), b.ID, ledger.Page{})
		require.NoError(t, err)
		used, err := a.Ledger().Consumptions(t.Context(), list[0].ID)
		require.NoError(t, err)
		require.Len(t, used, 2)
		require.ElementsMatch(t, []string{r.Actions[0].Invocation, undo.Invocation}, []string{used[0].Invocation, used[1].Invocation})
		require.Equal(t, []string{"first"}, a.Fails(t, stage.Reset(t, a.Client(), run)).Compensated)
		require.Equal(t, written, a.Written(t), "a reset does nothing twice")
	}
	// An auditor sees that it was undone, and by whose approval.
	require.Zero(t, a.Verifies(t).Standing)
}

// TestOnlyWhatFollowsIsApproved: whoever asks in a run's place, and whoever has stolen the
// guardian's key, undoes with other people's approval nothing but what they have approved.
func TestOnlyWhatFollowsIsApproved(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Pages, stage.SagaCatalog, stage.SagaPolicy)
	eve := a.Enrol(t, "eve", "editor")
	waits := strings.Replace(fmt.Sprintf(coveredPlan, 100, "", "${args.line}"), `engine/fail, with: {message: "it ends here"}`, "engine/sleep, with: {ms: 600000}, timeout_ms: 700000", 1)
	digest := a.Publish(t, waits)
	run, other := a.Start(t, "done", digest, `{"line":"a"}`), a.Start(t, "waits", digest, `{"line":"b"}`)
	b := a.Asked(t, run, 1)[0]
	a.Asked(t, other, 1)
	signed := eve.Sign(t, b, approval.Approve, nil)
	require.True(t, a.Update(t, run, signed).Accepted)
	stage.Until(t, "the line is written", func() bool {
		return slices.ContainsFunc(stage.State(t, a.Client(), run).Nodes, func(n contract.NodeStatus) bool { return n.ID == "first" && n.State == contract.Succeeded })
	})

	const edge = 2
	value := func(text string) contract.Value { return contract.Value(text) }
	call := func(of client.WorkflowRun, args, output string) contract.Call {
		c := contract.Call{Run: contract.Identity{Workflow: of.GetID(), Root: of.GetRunID(), Origin: of.GetRunID()}, Plan: digest, Node: 2, Visit: 1, Request: "rogue"}
		c.Deliveries = []contract.Delivery{{Edge: edge, Args: value(args), Output: value(output)}, {Edge: edge + 1, Args: value(args), Output: value(output)}}
		return c
	}
	alone := call(run, `{"line":"a"}`, `{"page":7}`)
	alone.Deliveries = alone.Deliveries[:1]
	decide := func(c contract.Call) (out contract.Decided) {
		t.Helper()
		require.NoError(t, stage.Ask(t, contract.QueueGuardian, contract.ActivityDecide, c, &out))
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
	key, err := trust.ParseKey([]byte(a.GuardianKey))
	require.NoError(t, err)
	steal := func(c contract.Call, invocation, input string) error {
		now := time.Now()
		permit, err := trust.SignPermit(key, trust.Permit{
			Deployment: "test", Audience: a.Root.Audience, Guardian: "guardian", Invocation: invocation, Decision: invocation + "/9",
			Call: trust.Call{Operation: "book/erase", Input: []byte(input)}.Digest(salt), Issued: ledger.At(now), Expires: ledger.At(now.Add(trust.MaxPermit)),
		})
		require.NoError(t, err)
		c.Permit = &contract.Permit{Envelope: permit, Salt: salt, Approved: &contract.Approved{Request: b.Request, Envelopes: []json.RawMessage{signed}}}
		return stage.Ask(t, contract.QueueEffects, "book/erase", c, nil)
	}
	require.ErrorContains(t, steal(call(run, `{"line":"z"}`, `{"page":7}`), undo, `{"line":"z","page":7}`), "people have approved something else")
	require.ErrorContains(t, steal(call(run, `{"line":"a"}`, `{"page":8}`), undo, `{"line":"a","page":8}`), "people have approved something else")
	require.Equal(t, []string{"write a"}, a.Written(t))

	// What follows is approved, once.
	good := call(run, `{"line":"a"}`, `{"page":7}`)
	good.Permit = decide(good).Permit
	require.NotNil(t, good.Permit)
	for range 2 {
		require.NoError(t, stage.Ask(t, contract.QueueEffects, "book/erase", good, nil))
	}
	require.Equal(t, []string{"write a", `erase {"line":"a","page":7}`}, a.Written(t))
	require.Nil(t, decide(good).Permit, "it has happened")
	for _, r := range []client.WorkflowRun{run, other} {
		require.NoError(t, a.Client().CancelWorkflow(t.Context(), r.GetID(), ""))
		require.Error(t, a.Await(t, r, nil))
	}
	require.Len(t, a.Written(t), 2, "nothing is undone twice")
}

// TestUndoIsApprovedAfterTheDeadline: a run whose deadline has passed waits for those who must
// approve what undoes its effect, and nobody pauses that.
func TestUndoIsApprovedAfterTheDeadline(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "book", stage.Pages, stage.SagaCatalog, undoFloor)
	fay := a.Enrol(t, "fay", "finance")
	run := a.Start(t, "late", a.Publish(t, `{apiVersion: chimera/v1, kind: Plan, name: late, version: "1", agent: tester, allow: [pure, committing], limits: {deadline_ms: 600000},
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [{id: first, template: book/write, commit_policy: {}}, {id: back, template: book/erase, commit_policy: {rollback: {none: "gone"}}},
    {id: last, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}]}, rollback: {none: "it is not written"}}}],
  edges: [$input.line -> first.line, first -> last, $input.line -> last.line,
    {from_node: first, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`), `{"line":"a"}`)
	last := a.Asked(t, run, 1)[0]
	stage.Pass(run, 10*time.Minute)
	undo := a.Next(t, run, last)
	require.Equal(t, "node/back", undo.Name)
	require.Greater(t, time.Until(undo.ExpiresAt.Time()), 23*time.Hour)
	s := paused(t, a, run, `{}`)
	require.Equal(t, []any{false, contract.CodeEnding}, []any{s.Accepted, s.Code}, s.Detail)
	a.Sign(t, run, undo, approval.Approve, fay)
	f := a.Fails(t, run)
	require.Equal(t, contract.Deadline, f.Kind, f.Message)
	require.Equal(t, []string{"first"}, f.Compensated)
}
