package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
)

// soon is how often hosts of these tests compare the ledger with Temporal.
const soon = 20 * time.Millisecond

// gate is a skill that waits until it is opened, or its call ends.
func gate(opened <-chan struct{}) skills.Skill {
	return skill("gate", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case <-opened:
			return json.RawMessage(`{"x":1}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

// chain is a plan whose runs continue as new where they may have 60 events, and wait
// then.
func chain() string {
	nodes, edges := []string{"n0 engine/pass 2000"}, []string{"$input.x -> n0.x"}
	for i := range 30 {
		nodes = append(nodes, fmt.Sprintf("n%d engine/pass 2000", i+1))
		edges = append(edges, fmt.Sprintf("n%d.x -> n%d.x", i, i+1))
	}
	return source("", append(nodes, "last test/gate 600000"), append(edges, "n30 -> last", "last.x -> $output.x"))
}

// becomes waits until the ledger has a run in a state.
func becomes(t *testing.T, s *store.Opened, workflow, root string, want ledger.RunState) ledger.Run {
	t.Helper()
	var r ledger.Run
	stage.Until(t, "the ledger has the run as "+string(want), func() bool {
		var err error
		r, err = s.Ledger.Run(t.Context(), workflow, root)
		if !errors.Is(err, ledger.ErrNotFound) {
			require.NoError(t, err)
		}
		return r.State == want
	})
	return r
}

// TestTheLedgerIsToldOfEndsThatTemporalMakes: an execution that was terminated, ran
// out of time, or was reset while it ran, could state no end; the host that leads
// does, of the last execution of the run and of no other. What it states verifies.
func TestTheLedgerIsToldOfEndsThatTemporalMakes(t *testing.T) {
	t.Parallel()
	for name, open := range stores(t) {
		if name == "postgres" || name == "postgres, with blobs" {
			continue // as the one with the engine's role
		}
		t.Run(name, func(t *testing.T) {
			if name == "sqlite" {
				lengthy.Skip(t)
			}
			stage.Parallel(t)
			o := open(t)
			opened := make(chan struct{})
			h := stage.Host(t, host.Options{Store: o, EndsEvery: soon, ContinueAfter: 60, Skills: []skills.Skill{gate(opened)}})
			c := h.Client()
			ready := func(run client.WorkflowRun) {
				t.Helper()
				stage.Until(t, "it waits", func() bool {
					s := stage.State(t, c, run)
					return s.Counts.Running == 1 && s.Counts.Pending == 0
				})
			}
			plain := source("", []string{"a engine/pass 900", "b test/gate 60000"}, []string{"$input.x -> a.x", "a -> b", "b.x -> $output.x"})

			terminated := stage.Start(t, c, plain, `{"x":1}`)
			ready(terminated)
			require.NoError(t, c.TerminateWorkflow(t.Context(), terminated.GetID(), "", "enough"))
			becomes(t, h.Store(), terminated.GetID(), terminated.GetRunID(), ledger.RunTerminated)

			// One that the ledger has opened by then.
			for lasts := time.Second; ; lasts *= 2 {
				late, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
					TaskQueue: contract.QueueEngine, WorkflowRunTimeout: lasts,
				}, contract.WorkflowType, contract.Start{Source: plain, Input: json.RawMessage(`{"x":1}`)})
				require.NoError(t, err)
				require.Error(t, stage.Await(t, c, late, nil))
				if _, err := h.Store().Ledger.Run(t.Context(), late.GetID(), late.GetRunID()); err == nil {
					becomes(t, h.Store(), late.GetID(), late.GetRunID(), ledger.RunTimedOut)
					break
				}
			}

			// Continued as new, and again by another run of the same id.
			long := stage.Start(t, c, chain(), `{"x":1}`)
			first := long.GetRunID()
			ready(long)
			described, err := c.DescribeWorkflowExecution(t.Context(), long.GetID(), "")
			require.NoError(t, err)
			require.NotEqual(t, first, described.GetWorkflowExecutionInfo().GetExecution().GetRunId(), "it has continued as new")
			require.NoError(t, c.TerminateWorkflow(t.Context(), long.GetID(), "", "enough"))
			again, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
				ID: long.GetID(), TaskQueue: contract.QueueEngine,
			}, contract.WorkflowType, contract.Start{Source: plain, Input: json.RawMessage(`{"x":1}`)})
			require.NoError(t, err)
			ready(again)
			becomes(t, h.Store(), long.GetID(), first, ledger.RunTerminated)
			becomes(t, h.Store(), long.GetID(), again.GetRunID(), ledger.RunRunning)

			// A reset terminates what runs, and its executions name the same first one.
			based := stage.Start(t, c, plain, `{"x":1}`)
			base := based.GetRunID()
			ready(based)
			tasks := events(t, c, based, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)
			reset, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
				Namespace: stage.Temporal(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: based.GetID(), RunId: base},
				Reason: "test", WorkflowTaskFinishEventId: tasks[0].GetEventId(), RequestId: "reset on " + name,
			})
			require.NoError(t, err)
			becomes(t, h.Store(), based.GetID(), base, ledger.RunTerminated)
			close(opened)
			require.NoError(t, stage.Await(t, c, c.GetWorkflow(t.Context(), based.GetID(), reset.GetRunId()), nil))
			becomes(t, h.Store(), based.GetID(), reset.GetRunId(), ledger.RunSucceeded)
			require.NoError(t, stage.Await(t, c, again, nil))
			becomes(t, h.Store(), again.GetID(), again.GetRunID(), ledger.RunSucceeded)
			require.NoError(t, h.Close())

			operator, err := store.Open(t.Context(), owner(o))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, operator.Close()) })
			integrate(t, operator)
			dir := filepath.Join(t.TempDir(), "export")
			_, err = audit.Export(t.Context(), operator.Ledger, dir)
			require.NoError(t, err)
			report, err := audit.Verify(dir, audit.Trust{Origin: operator.Key.Name(), Log: operator.Key.Public()}, nil)
			require.NoError(t, err)
			require.True(t, report.OK, report.Problems)
			require.Empty(t, report.Open)
		})
	}
}

// TestTheLedgerIsToldOfEndsThatNobodyStated: a run that was opened, and whose worker
// was lost before the run knew, is closed as Temporal has ended it; one that Temporal
// does not know stays open, and the log says so once.
func TestTheLedgerIsToldOfEndsThatNobodyStated(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	h := stage.Host(t, host.Options{ContinueAfter: 60, Skills: []skills.Skill{gate(nil)}})
	c := h.Client()
	succeeded := stage.Start(t, c, source("", []string{"a engine/pass 900"}, []string{"$input.x -> a.x", "a.x -> $output.x"}), `{"x":1}`)
	require.NoError(t, stage.Await(t, c, succeeded, nil))
	refused := stage.Start(t, c, "kind: Plan", `{}`)
	require.Error(t, stage.Await(t, c, refused, nil))
	cancelled := stage.Start(t, c, source("", []string{"b test/gate 600000"}, []string{"b -> $output"}), `{}`)
	stage.Until(t, "it waits", func() bool { return stage.State(t, c, cancelled).Counts.Running == 1 })
	require.NoError(t, c.CancelWorkflow(t.Context(), cancelled.GetID(), ""))
	require.Error(t, stage.Await(t, c, cancelled, nil))
	running := stage.Start(t, c, source("", []string{"b test/gate 600000"}, []string{"b -> $output"}), `{}`)
	stage.Until(t, "it waits", func() bool { return stage.State(t, c, running).Counts.Running == 1 })
	// Temporal has forgotten how this one began.
	forgotten := stage.Start(t, c, chain(), `{"x":1}`)
	root := forgotten.GetRunID()
	stage.Until(t, "it waits", func() bool {
		s := stage.State(t, c, forgotten)
		return s.Counts.Running == 1 && s.Counts.Pending == 0
	})
	// It has forgotten this one, too, which was reset; the reset was terminated at once.
	based := stage.Start(t, c, source("", []string{"b test/gate 600000"}, []string{"b -> $output"}), `{}`)
	base := based.GetRunID()
	stage.Until(t, "it waits", func() bool { return stage.State(t, c, based).Counts.Running == 1 })
	_, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
		Namespace: stage.Temporal(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: based.GetID(), RunId: base},
		Reason: "test", WorkflowTaskFinishEventId: events(t, c, based, enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED)[0].GetEventId(), RequestId: "reset of a forgotten run",
	})
	require.NoError(t, err)
	require.NoError(t, c.TerminateWorkflow(t.Context(), based.GetID(), "", "enough"))
	for workflow, first := range map[string]string{forgotten.GetID(): root, based.GetID(): base} {
		_, err := c.WorkflowService().DeleteWorkflowExecution(t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: stage.Temporal(t).Namespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflow, RunId: first},
		})
		require.NoError(t, err)
	}
	stage.Until(t, "the first executions are gone", func() bool {
		_, err := c.DescribeWorkflowExecution(t.Context(), forgotten.GetID(), root)
		_, other := c.DescribeWorkflowExecution(t.Context(), based.GetID(), base)
		return errors.As(err, new(*serviceerror.NotFound)) && errors.As(other, new(*serviceerror.NotFound))
	})
	// A worker of somebody else's has ended this one, and says more than the ledger takes.
	other := stranger(t)
	w := worker.New(other, "of somebody else", worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context) error {
		return temporal.NewApplicationError("loud", "loud", contract.Failure{Kind: contract.FailedKind, Message: strings.Repeat("x", ledger.MaxBodyBytes)})
	}, workflow.RegisterOptions{Name: contract.WorkflowType})
	require.NoError(t, w.Start())
	loud, err := other.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "of somebody else"}, contract.WorkflowType)
	require.NoError(t, err)
	require.Error(t, stage.Await(t, other, loud, nil))
	w.Stop()
	require.NoError(t, h.Close())

	// A ledger that has them open.
	o := store.Options{Dir: filepath.Join(t.TempDir(), "store")}
	s, err := store.Open(t.Context(), o)
	require.NoError(t, err)
	open := func(workflow, root string) {
		require.NoError(t, s.Ledger.OpenRun(t.Context(), ledger.Run{
			Workflow: workflow, Root: root, Origin: root, PlanDigest: plan.DigestOf([]byte("p")), InputDigest: plan.DigestOf([]byte("i")),
		}))
	}
	for _, run := range []client.WorkflowRun{succeeded, refused, cancelled, loud, running} {
		open(run.GetID(), run.GetRunID())
	}
	open(forgotten.GetID(), root)
	open(based.GetID(), base)
	open("nobody-1", uuid.NewString())
	open("nobody-2", "no id of Temporal's")
	open(running.GetID(), uuid.NewString())
	require.NoError(t, s.Close())
	log := new(lines)
	h = stage.Host(t, host.Options{Store: o, EndsEvery: soon, Roles: []host.Role{host.RoleEngine}, Logger: slog.New(slog.NewTextHandler(log, nil))})

	r := becomes(t, h.Store(), succeeded.GetID(), "", ledger.RunSucceeded)
	require.Equal(t, plan.DigestOf([]byte(`{"x":1}`)), r.OutputDigest)
	var f contract.Failure
	r = becomes(t, h.Store(), refused.GetID(), "", ledger.RunFailed)
	require.NoError(t, json.Unmarshal(r.Failure, &f))
	require.Equal(t, contract.Contract, f.Kind)
	r = becomes(t, h.Store(), cancelled.GetID(), "", ledger.RunCancelled)
	require.NoError(t, json.Unmarshal(r.Failure, &f))
	require.Equal(t, contract.Cancelled, f.Kind)
	r = becomes(t, h.Store(), loud.GetID(), "", ledger.RunFailed)
	require.NoError(t, json.Unmarshal(r.Failure, &f))
	require.Equal(t, "the run ended before it could say how", f.Message)
	stage.Until(t, "the log says what is not known", func() bool { return strings.Contains(log.String(), "runs open that Temporal does not know") })
	left, err := h.Store().Ledger.OpenRuns(t.Context(), "", "", 10)
	require.NoError(t, err)
	require.Len(t, left, 6)

	// Rounds later it has still said nothing more.
	require.NoError(t, h.Client().TerminateWorkflow(t.Context(), running.GetID(), running.GetRunID(), "enough"))
	becomes(t, h.Store(), running.GetID(), running.GetRunID(), ledger.RunTerminated)
	require.NoError(t, h.Client().TerminateWorkflow(t.Context(), forgotten.GetID(), "", "enough"))
	becomes(t, h.Store(), forgotten.GetID(), root, ledger.RunTerminated)
	require.NoError(t, h.Close())
	require.Equal(t, 1, strings.Count(log.String(), "runs open that Temporal does not know"))
	require.Contains(t, log.String(), "count=4")
}

// TestALargeOutputIsReadBeforeItsRunIsClosed: the host closes a run that Temporal has
// completed only when it has read the output, whose digest the ledger is told.
func TestALargeOutputIsReadBeforeItsRunIsClosed(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	large, err := json.Marshal(map[string]string{"x": strings.Repeat("large ", payload.InlineLimit/4)})
	require.NoError(t, err)
	first, second := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
	h := stage.Host(t, host.Options{
		Store: store.Options{Dir: first},
		Skills: []skills.Skill{skill("give", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return large, nil
		})},
	})
	run := stage.Start(t, h.Client(), source("", []string{"a test/give 60000"}, []string{"a.x -> $output.x"}), `{}`)
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
	require.NoError(t, h.Close())

	// Another ledger has it open, and cannot read the values.
	log := new(lines)
	h = stage.Host(t, host.Options{Store: store.Options{Dir: second}, EndsEvery: soon, Roles: []host.Role{host.RoleEngine}, Logger: slog.New(slog.NewTextHandler(log, nil))})
	blobs := filepath.Join(second, "blobs")
	require.NoError(t, os.RemoveAll(blobs))
	require.NoError(t, os.WriteFile(blobs, nil, 0o600))
	require.NoError(t, h.Store().Ledger.OpenRun(t.Context(), ledger.Run{
		Workflow: run.GetID(), Root: run.GetRunID(), Origin: run.GetRunID(), PlanDigest: plan.DigestOf([]byte("p")), InputDigest: plan.DigestOf([]byte("i")),
	}))
	stage.Until(t, "the host has asked for the output", func() bool {
		return strings.Contains(log.String(), "open runs of the ledger were not compared with Temporal") ||
			strings.Contains(log.String(), "a run was closed in the ledger")
	})
	r, err := h.Store().Ledger.Run(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	require.Equal(t, ledger.RunRunning, r.State)
	// They come back all at once: one that is not there is no reason to wait.
	require.NoError(t, os.CopyFS(blobs+".back", os.DirFS(filepath.Join(first, "blobs"))))
	require.NoError(t, os.Remove(blobs))
	require.NoError(t, os.Rename(blobs+".back", blobs))
	r = becomes(t, h.Store(), run.GetID(), run.GetRunID(), ledger.RunSucceeded)
	require.Equal(t, plan.DigestOf(large), r.OutputDigest)
}
