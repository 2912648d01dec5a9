package host_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
)

// TestAnyWorkflowID: a run whose id cannot be written in a request's header ends
// like any other, and is found; one that the ledger cannot name is refused.
func TestAnyWorkflowID(t *testing.T) {
	h := stage.Host(t, host.Options{})
	text := source("", []string{"a engine/pass 900", "b engine/pass 60000"}, []string{"$input.x -> a.x", "a.x -> b.x", "b.x -> $output.x"})
	for _, id := range []string{"bestellung-ü", "💥", "x\ny", "a/b#c $%00"} {
		run, err := h.Client().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: contract.QueueEngine},
			contract.WorkflowType, contract.Start{Source: text, Input: json.RawMessage(`{"x":2}`)})
		require.NoError(t, err, "%q", id)
		err = stage.Await(t, h.Client(), run, nil)
		if strings.ContainsFunc(id, unicode.IsControl) {
			var failure *temporal.ApplicationError
			require.ErrorAs(t, err, &failure)
			require.Equal(t, string(contract.Contract), failure.Type())
			continue
		}
		require.NoError(t, err, "%q", id)
		recorded, err := h.Store().Ledger.Run(t.Context(), id, "")
		require.NoError(t, err, "%q", id)
		require.Equal(t, ledger.RunSucceeded, recorded.State, "%q", id)
	}
}
