package host_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	"chimera.ai/engine/internal/raced"
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

// TestABarrierCostsFewEvents: a run that waits at a barrier has few events, whether somebody
// signs or nobody does. How long it waits changes nothing about that: it has one timer, until
// the barrier expires.
func TestABarrierCostsFewEvents(t *testing.T) {
	raced.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	eve := a.enrol(t, "eve", "editor")
	short := strings.Replace(approvedPlan, ", {role: finance, min: 1}]", "], expires_in_ms: 3000", 1)
	run := a.start(t, "expires", a.publish(t, strings.Replace(short, "asks", "soon", 1)), `{"line":"one"}`)
	a.asked(t, run, 1)
	require.Equal(t, contract.Expired, failureOf(t, stage.Await(t, a.h.Client(), run, nil)).Kind)
	signed := a.start(t, "signed", a.publish(t, strings.Replace(short, "3000", "60000", 1)), `{"line":"two"}`)
	a.signal(t, signed, eve.Sign(t, a.asked(t, signed, 1)[0], approval.Approve, nil))
	require.NoError(t, stage.Await(t, a.h.Client(), signed, nil))
	require.Equal(t, []string{`{"line":"two"}`}, a.written(t))
	for _, r := range []client.WorkflowRun{run, signed} {
		all := events(t, a.h.Client(), r, enumspb.EVENT_TYPE_UNSPECIFIED)
		require.Less(t, len(all), 50)
		require.LessOrEqual(t, len(events(t, a.h.Client(), r, enumspb.EVENT_TYPE_TIMER_STARTED)), 3, "the deadline, the barrier, and that again")
		t.Logf("%s: %d events", r.GetID(), len(all))
		a.replays(t, r)
	}
}

// TestABarrierHoldsUpNobody: while people are asked, 5,000 other nodes of a run, or 1,000 with
// -short, end in the one slot that it has, an effect follows them, and the run continues as
// new; then the effect that is asked about happens once.
func TestABarrierHoldsUpNobody(t *testing.T) {
	raced.Skip(t)
	stage.Parallel(t)
	a := act(t, writes)
	a.options.ContinueAfter = 500
	a.again(t)
	eve := a.enrol(t, "eve", "editor")
	const long = 100
	chains := 50
	if testing.Short() {
		chains = 10
	}
	nodes := []string{
		`{id: write, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}]}, rollback: {none: "it stays"}}}`,
		`{id: all, template: book/write, with: {line: "all"}, commit_policy: {rollback: {none: "it stays"}}}`,
	}
	edges := []string{"$input.line -> write.line", "write.ok -> $output.ok"}
	for c := range chains {
		for i := range long {
			nodes = append(nodes, fmt.Sprintf("{id: c%dn%d, template: engine/pass, timeout_ms: 900}", c, i))
			if i > 0 {
				edges = append(edges, fmt.Sprintf("c%dn%d -> c%dn%d", c, i-1, c, i))
			}
		}
		edges = append(edges, fmt.Sprintf("c%dn%d -> all", c, long-1))
	}
	digest := a.publish(t, fmt.Sprintf(`{apiVersion: chimera/v1, kind: Plan, name: beside, version: "1", agent: tester, allow: [pure, committing], limits: {max_parallel: 1},
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [%s], edges: [%s]}`, strings.Join(nodes, ",\n"), strings.Join(edges, ", ")))
	begun := time.Now()
	run := a.start(t, "beside", digest, `{"line":"one"}`)
	b := stage.Asked(t, a.ledger(), run, 1)[0]
	const patience = 4 * time.Minute
	require.Eventually(t, func() bool { return len(a.written(t)) == 1 }, patience, 100*time.Millisecond, "all else has ended")
	require.Equal(t, []string{`{"line":"all"}`}, a.written(t))
	var s contract.State
	stage.Until(t, "the run knows", func() bool {
		s = stage.State(t, a.h.Client(), run)
		return s.Counts.Succeeded == chains*long+1
	})
	require.Equal(t, 1, s.Counts.Running)
	require.Len(t, s.Barriers, 1)
	require.Greater(t, s.Executions, 1, "it has continued as new")
	t.Logf("%d nodes ended in %s and %d executions", chains*long, time.Since(begun).Round(time.Millisecond), s.Executions)
	v := a.insist(t, run, eve.Sign(t, b, approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, []string{`{"line":"all"}`, `{"line":"one"}`}, a.written(t))
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
// once. Nor does any happen again when the run is reset to any task of any of its executions.
func TestTwoBarriers(t *testing.T) {
	raced.Skip(t)
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

	resets := 0
	all := executions(t, c(), run.GetID(), restarted)
	for _, one := range all {
		for _, task := range events(t, c(), one, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED) {
			require.NoError(t, stage.Await(t, c(), a.reset(t, one, task.GetEventId()), nil))
			resets++
		}
	}
	require.ElementsMatch(t, written, a.written(t))
	open, err := a.ledger().ListBarriers(t.Context(), ledger.BarrierOpen, ledger.Page{})
	require.NoError(t, err)
	require.Empty(t, open)
	t.Logf("%d executions, %d resets", len(all), resets)
}

// TestMoveAWaitingRun: a run that waits at a barrier moves to another build with what was
// signed, once its history replays there.
func TestMoveAWaitingRun(t *testing.T) {
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
	run := a.Start(t, b.client, runID(t, "moved"), a.publish(t, approvedPlan), `{"line":"one"}`)
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

// TestApprovedElsewhere: a run that is reset to where it waits asks how its barrier stands, so
// it learns what people have approved in another run that continues the same history.
func TestApprovedElsewhere(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	eve, fay := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance")
	run := a.start(t, "elsewhere", a.publish(t, approvedPlan), `{"line":"one"}`)
	b := a.asked(t, run, 1)[0]
	tasks := events(t, a.h.Client(), run, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
	waiting := tasks[len(tasks)-1].GetEventId()
	other := a.reset(t, run, waiting)
	stage.Until(t, "the other run knows", func() bool { return len(stage.State(t, a.h.Client(), other).Barriers) == 1 })
	require.True(t, a.update(t, other, eve.Sign(t, b, approval.Approve, nil)).Accepted)
	require.True(t, a.update(t, other, fay.Sign(t, b, approval.Approve, nil)).Accepted)
	require.NoError(t, stage.Await(t, a.h.Client(), other, nil))
	require.NoError(t, stage.Await(t, a.h.Client(), a.reset(t, run, waiting), nil))
	require.Equal(t, []string{`{"line":"one"}`}, a.written(t))
}
