package host_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/skills"
)

// executions are those of a workflow from one of them on, in their order.
func executions(t *testing.T, c client.Client, workflow, id string) (all []client.WorkflowRun) {
	t.Helper()
	for id != "" {
		all = append(all, c.GetWorkflow(t.Context(), workflow, id))
		last := events(t, c, all[len(all)-1], enumspb.EVENT_TYPE_UNSPECIFIED)
		id = last[len(last)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return all
}

// insist sends a signature by the update until it is looked at.
func (a *acting) insist(t *testing.T, run client.WorkflowRun, envelope json.RawMessage) (v contract.Verdict) {
	t.Helper()
	stage.Until(t, "the signature is looked at", func() bool {
		v = a.update(t, run, envelope)
		return v.Code != contract.CodeAgain
	})
	return v
}

const twoBarriers = `{apiVersion: chimera/v1, kind: Plan, name: two, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [
    {id: a, template: book/write, with: {line: "a"}, commit_policy: {barrier: left, approval: {groups: [{role: editor, min: 2}]}, rollback: {none: "it stays"}}},
    {id: b, template: book/write, with: {line: "b"}, commit_policy: {barrier: left, rollback: {none: "it stays"}}},
    {id: c, template: book/write, with: {line: "c"}, commit_policy: {barrier: right, approval: {groups: [{role: editor, min: 1}, {role: finance, min: 1}]}, rollback: {none: "it stays"}}},
    {id: d, template: book/write, commit_policy: {barrier: right, rollback: {none: "it stays"}}}],
  edges: [$input -> a, $input -> b, $input -> c, $input.line -> d.line, d.ok -> $output.ok]}`

// TestTwoBarriers: a run that waits at two barriers, of groups, continues as new, loses its
// workers, and is reset; what is signed for one counts there alone, and each effect happens
// once. Nor does any happen again when the run is reset afterwards.
func TestTwoBarriers(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	a.options.ContinueAfter = 12
	a.again(t)
	c := func() client.Client { return a.h.Client() }
	eve, fay, gus := a.enrol(t, "eve", "editor", "finance"), a.enrol(t, "fay", "finance"), a.enrol(t, "gus", "editor")
	run := a.start(t, "two", a.publish(t, twoBarriers), `{"line":"d"}`)
	both := a.asked(t, run, 2)
	left, right := both[0], both[1]
	if strings.Contains(left.Name, "right") {
		left, right = right, left
	}
	require.Len(t, left.Actions, 2)
	require.Len(t, right.Actions, 2)
	stage.Until(t, "it has continued as new", func() bool { return stage.State(t, c(), run).Executions > 1 })
	missing := func(b ledger.Barrier) []contract.Group {
		t.Helper()
		for _, s := range stage.State(t, c(), run).Barriers {
			if s.ID == b.ID {
				return s.Missing
			}
		}
		require.Fail(t, "the run does not wait there", b.ID)
		return nil
	}

	v := a.insist(t, run, eve.Sign(t, left, approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, []contract.Group{{Role: "editor", Min: 1}}, missing(left))
	require.Equal(t, []contract.Group{{Role: "editor", Min: 1}, {Role: "finance", Min: 1}}, missing(right), "she has signed for the other one")
	v = a.insist(t, run, gus.Sign(t, left, approval.Approve, func(p *approval.Payload) { p.Barrier = right.ID }))
	require.Equal(t, string(approval.Foreign), v.Code)
	a.again(t)

	// A run that is reset while it waits asks nobody again.
	var now client.WorkflowRun
	var tasks []*historypb.HistoryEvent
	stage.Until(t, "it has ended a task of its present execution", func() bool {
		about, err := c().DescribeWorkflowExecution(t.Context(), run.GetID(), "")
		require.NoError(t, err)
		all := executions(t, c(), run.GetID(), about.GetWorkflowExecutionInfo().GetFirstRunId())
		now = all[len(all)-1]
		tasks = events(t, c(), now, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
		return len(tasks) > 0
	})
	run = a.reset(t, now, tasks[len(tasks)-1].GetEventId())
	restarted := run.GetRunID()
	stage.Until(t, "the run knows", func() bool { return len(stage.State(t, c(), run).Barriers) == 2 })
	a.signal(t, run, gus.Sign(t, right, approval.Approve, nil))
	a.signal(t, run, fay.Sign(t, right, approval.Approve, nil))
	stage.Until(t, "the members of one have their effect", func() bool { return len(a.written(t)) == 2 })
	require.ElementsMatch(t, []string{`{"line":"c"}`, `{"line":"d"}`}, a.written(t))
	require.Equal(t, []contract.Group{{Role: "editor", Min: 1}}, missing(left), "what was signed before the reset counts")
	a.again(t)
	run = c().GetWorkflow(t.Context(), run.GetID(), run.GetRunID()) // by a client that is not closed
	a.signal(t, run, gus.Sign(t, left, approval.Approve, nil))
	require.NoError(t, stage.Await(t, c(), run, nil))
	written := []string{`{"line":"a"}`, `{"line":"b"}`, `{"line":"c"}`, `{"line":"d"}`}
	require.ElementsMatch(t, written, a.written(t))

	all := executions(t, c(), run.GetID(), restarted)
	for i, one := range []client.WorkflowRun{all[0], all[len(all)/2], all[len(all)-1]} {
		tasks := events(t, c(), one, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
		require.NoError(t, stage.Await(t, c(), a.reset(t, one, tasks[i*(len(tasks)-1)/2].GetEventId()), nil))
	}
	require.ElementsMatch(t, written, a.written(t))
	open, err := a.ledger().ListBarriers(t.Context(), ledger.BarrierOpen, ledger.Page{})
	require.NoError(t, err)
	require.Empty(t, open)
}

// TestMoveAWaitingRun: a run that waits at a barrier moves to another build with what was
// signed, once its history replays there.
func TestMoveAWaitingRun(t *testing.T) {
	lengthy.Skip(t)
	t.Parallel()
	b := newBuilds(t)
	common := b.options("a")
	d := stage.Deploy(t, &common)
	var ds diag.Diagnostics
	common.Catalog, ds = compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(actingCatalog)})
	require.False(t, ds.HasErrors(), "%v", ds)
	common.Policy, ds = policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(actingPolicy)})
	require.False(t, ds.HasErrors(), "%v", ds)
	a := &acting{Deployment: d, lines: filepath.Join(t.TempDir(), "lines")}
	common.Executables = map[string]skills.Executable{"book": {Command: "/bin/sh", Args: []string{"-c", writes}, Env: map[string]string{"LINES_FILE": a.lines}}}
	build := func(name string) *host.Host {
		o := common
		o.Deployment.Build = name
		h := stage.Host(t, o)
		b.current(t, name)
		return h
	}
	a.h, a.options = build("a"), common
	a.Begin(t, a.ledger())
	eve, fay := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance")
	run := a.Start(t, b.client, stage.RunID(t, "moved"), a.publish(t, approvedPlan), `{"line":"one"}`)
	asked := a.asked(t, run, 1)[0]
	require.True(t, a.insist(t, run, eve.Sign(t, asked, approval.Approve, nil)).Accepted)
	require.NoError(t, a.h.Close())

	a.h = build("b")
	require.Equal(t, "a", pinned(t, b.client, run))
	values, err := blob.Open(filepath.Join(b.store, "blobs"))
	require.NoError(t, err)
	var refused *host.ReplayError
	require.ErrorAs(t, host.NewReplayerOf(reordered, values, b.sealed).Move(t.Context(), b.client, "default", run.GetID(), host.Deployment{Name: "test", Build: "b"}), &refused)
	require.NoError(t, host.NewReplayer(values, b.sealed).Move(t.Context(), b.client, "default", run.GetID(), host.Deployment{Name: "test", Build: "b"}))
	require.Equal(t, "b", pinned(t, b.client, run))
	v := a.insist(t, run, fay.Sign(t, asked, approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	require.NoError(t, stage.Await(t, b.client, run, nil))
	require.Equal(t, []string{`{"line":"one"}`}, a.written(t))
	by, _ := b.taken(t, run.GetID())
	require.Equal(t, []string{"a", "b"}, by)
}
