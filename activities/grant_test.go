package activities_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/trust"
)

// TestStartGrants: a start grant opens the one run that it names, and its resets.
func TestStartGrants(t *testing.T) {
	t.Parallel()
	a := stage.Act(t, stage.Writes)
	digest, input := a.Publish(t, stage.ActingPlan), `{"line":"a"}`
	id := stage.RunID(t, "one")
	start := func(id string, s contract.Start) client.WorkflowRun {
		run, err := a.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine}, contract.WorkflowType, s)
		require.NoError(t, err)
		return run
	}
	refused := func(kind contract.Kind, why string, run client.WorkflowRun) {
		t.Helper()
		f := a.Fails(t, run)
		require.Equal(t, kind, f.Kind, f.Message)
		require.Contains(t, f.Message, why)
	}
	good := a.Grant(t, id, digest, input)
	first := start(id, contract.Start{Plan: digest, Input: json.RawMessage(`{ "line": "a" }`), Grant: good})
	require.NoError(t, a.Await(t, first, nil))
	named, err := trust.GrantDigest(good)
	require.NoError(t, err)
	r, err := a.Ledger().Run(t.Context(), id, first.GetRunID())
	require.NoError(t, err)
	require.Equal(t, "rae", r.Requester)
	require.Equal(t, named, r.GrantDigest)
	require.JSONEq(t, string(good), string(r.Grant))

	// A reset goes on with the run that was granted; so does its record.
	again := stage.Reset(t, a.Client(), first)
	require.NoError(t, a.Await(t, again, nil))
	r, err = a.Ledger().Run(t.Context(), id, again.GetRunID())
	require.NoError(t, err)
	require.Equal(t, first.GetRunID(), r.Origin)
	require.Equal(t, "rae", r.Requester)
	require.Equal(t, named, r.GrantDigest)

	with := contract.Start{Plan: digest, Input: json.RawMessage(input), Grant: good}
	refused(contract.Conflict, "the start grant has opened the run", start(id, with))
	refused(contract.Blocked, "the grant is for the workflow", start(id+"-other", with))
	with.Input = json.RawMessage(`{"line":"b"}`)
	refused(contract.Blocked, "the grant is for the input", start(id, with))
	require.Len(t, a.Written(t), 1)
	require.NoError(t, a.Await(t, a.Start(t, "one", digest, input), nil), "a new grant is no replay")
	require.Len(t, a.Written(t), 2)
}
