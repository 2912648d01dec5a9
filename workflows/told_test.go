package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/store"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
)

// TestTheLedgerKnowsHowRunsEnd: the ends of failed and cancelled runs are recorded.
func TestTheLedgerKnowsHowRunsEnd(t *testing.T) {
	t.Parallel()
	h := stage.Rehearse(t, host.Options{Skills: []skills.Skill{
		stage.Skill("waits", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		stage.Skill("fails", func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, errors.New("no") }),
	}})
	waits := stage.Source("", []string{"a engine/pass 500", "b test/waits 60000"}, []string{"$input.x -> a.x", "a -> b"})
	ready := func(run client.WorkflowRun) {
		stage.Until(t, "b runs", func() bool { return stage.State(t, h.Client(), run).Counts.Running == 1 })
	}
	failed := stage.Start(t, h.Client(), stage.Source("", []string{"a test/fails 500"}, []string{"a -> $output"}), `{}`)
	require.Error(t, stage.Await(t, h.Client(), failed, nil))
	r := stage.Told(t, h.Store(), failed)
	require.Equal(t, ledger.RunFailed, r.State)
	require.Len(t, r.Outcomes, 1)
	var f contract.Failure
	require.NoError(t, json.Unmarshal(r.Failure, &f))
	require.Equal(t, "a", f.Node)

	cancelled := stage.Start(t, h.Client(), waits, `{"x":1}`)
	ready(cancelled)
	require.NoError(t, h.Client().CancelWorkflow(t.Context(), cancelled.GetID(), ""))
	require.Error(t, stage.Await(t, h.Client(), cancelled, nil))
	r = stage.Told(t, h.Store(), cancelled)
	require.Equal(t, ledger.RunCancelled, r.State)
	require.Len(t, r.Outcomes, 1, "a has ended, b was dropped")

	refused := stage.Start(t, h.Client(), "kind: Plan", `{}`)
	require.Error(t, stage.Await(t, h.Client(), refused, nil))
	_, err := h.Store().Ledger.Run(t.Context(), refused.GetID(), "")
	require.ErrorIs(t, err, ledger.ErrNotFound, "what never was a run is none")
}

// TestAResetRunIsARunOfItsOwn: what it does again may come out differently, so it
// has a chain of its own, which says what it continues.
func TestAResetRunIsARunOfItsOwn(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	h := stage.Rehearse(t, host.Options{Skills: []skills.Skill{
		stage.Skill("later", func(context.Context, json.RawMessage) (json.RawMessage, error) {
			if calls.Add(1) == 1 {
				return nil, errors.New("not yet")
			}
			return json.RawMessage(`{"x":1}`), nil
		}),
	}})
	run := stage.Start(t, h.Client(), stage.Source("", []string{"a engine/pass 500", "b test/later 2000", "c engine/pass 500"},
		[]string{"$input.x -> a.x", "a -> b", "b.x -> c.x", "c.x -> $output.x"}), `{"x":1}`)
	root := run.GetRunID()
	require.Error(t, stage.Await(t, h.Client(), run, nil))
	again := stage.Reset(t, h.Client(), run)
	require.NoError(t, stage.Await(t, h.Client(), again, nil))
	state, _ := stage.Replayed(t, h.Store())
	first := state.Runs[ledger.RunChain(run.GetID(), root)]
	require.Equal(t, ledger.RunFailed, first.State)
	require.Len(t, first.Outcomes, 3, "c was skipped")
	second := state.Runs[ledger.RunChain(run.GetID(), again.GetRunID())]
	require.NotNil(t, second)
	require.Equal(t, ledger.RunSucceeded, second.State)
	require.Equal(t, root, second.Origin)
	require.Equal(t, first.InputDigest, second.InputDigest)
}

// TestPublishedPlansRun: by name and version, and by digest; one that this
// worker would not compile to the same is refused.
func TestPublishedPlansRun(t *testing.T) {
	t.Parallel()
	h := stage.Rehearse(t, host.Options{})
	ctx := t.Context()
	store := h.Store().Ledger
	text := stage.Source("", []string{"a engine/pass 500"}, []string{"$input.x -> a.x", "a.x -> $output.x"})
	ref := stage.Publish(t, h, text)
	stored, err := store.Plan(ctx, ref)
	require.NoError(t, err)
	digest := stored.Digest
	other := stored
	other.Name, other.Digest = "other", plan.DigestOf([]byte("other"))
	_, err = store.PublishPlan(ctx, other)
	require.NoError(t, err)
	start := func(ref string) (client.WorkflowRun, error) {
		run, err := h.Client().ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: contract.QueueEngine},
			contract.WorkflowType, contract.Start{Plan: ref, Input: json.RawMessage(`{"x":2}`)})
		require.NoError(t, err)
		return run, stage.Await(t, h.Client(), run, nil)
	}
	for _, ref := range []string{"test@1.0.0", digest} {
		run, err := start(ref)
		require.NoError(t, err)
		require.Equal(t, digest, stage.Told(t, h.Store(), run).PlanDigest)
	}
	_, err = start("other@1.0.0")
	require.Contains(t, stage.FailureOf(t, err).Message, "publish it again: chimera publish --again")
	state, _ := stage.Replayed(t, h.Store())
	require.Equal(t, []string{"other@1.0.0", "test@1.0.0"}, slices.Sorted(maps.Keys(state.Plans)))
}

// TestARunThatBeginsSaysThatItWaitsForTheStore: a run whose start cannot be
// written down answers meanwhile, and says why.
func TestARunThatBeginsSaysThatItWaitsForTheStore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	h := stage.Rehearse(t, host.Options{Store: store.Options{Dir: dir}})
	blobs := filepath.Join(dir, "blobs")
	require.NoError(t, os.Rename(blobs, blobs+".away"))
	require.NoError(t, os.WriteFile(blobs, nil, 0o600))
	run := stage.Start(t, h.Client(), stage.Source("", []string{"b engine/pass 500"}, []string{"$input.x -> b.x", "b.x -> $output.x"}), `{"x":1}`)
	var state contract.State
	stage.Until(t, "it says what it waits for", func() bool {
		state = stage.State(t, h.Client(), run)
		return len(state.Waiting) > 0
	})
	require.Equal(t, contract.RunLoading, state.State)
	require.NotEmpty(t, state.Plan)
	require.Len(t, state.Waiting, 1)
	w := state.Waiting[0]
	require.Equal(t, contract.WaitStore, w.Kind)
	require.NotEmpty(t, w.Since)
	require.Greater(t, w.Until, w.Since)
	require.Contains(t, w.Detail, "not a directory")
	require.NoError(t, os.Remove(blobs))
	require.NoError(t, os.Rename(blobs+".away", blobs))
	require.NoError(t, stage.Await(t, h.Client(), run, nil))
	require.Empty(t, stage.State(t, h.Client(), run).Waiting)
}
