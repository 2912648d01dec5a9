package docs

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
)

// TestChildOfAnyWorkflow: a workflow of somebody else's runs a plan as its child, as
// docs/chimera-or-temporal.md says.
func TestChildOfAnyWorkflow(t *testing.T) {
	h := stage.Host(t, host.Options{})
	w := worker.New(h.Client(), "docs-parents", worker.Options{})
	plan := first(t, tutorial, "yaml plan")
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (json.RawMessage, error) {
		ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{TaskQueue: contract.QueueEngine, WorkflowID: "docs-child"})
		var out json.RawMessage
		err := workflow.ExecuteChildWorkflow(ctx, contract.WorkflowType, map[string]any{
			"source": plan, "input": map[string]string{"name": "Ada"},
		}).Get(ctx, &out)
		return out, err
	}, workflow.RegisterOptions{Name: "docs.parent"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "docs-parent", TaskQueue: "docs-parents"}, "docs.parent")
	require.NoError(t, err)
	var out json.RawMessage
	require.NoError(t, stage.Await(t, h.Client(), run, &out))
	require.JSONEq(t, `{"greeting":"Hello, Ada!"}`, string(out))
}
