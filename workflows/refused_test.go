package workflows_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
)

// refusing is a ledger that opens runs, and takes nothing else of them.
type refusing struct{ noLedger }

func (refusing) RecordOutcomes(context.Context, string, string, []ledger.Outcome) error {
	return ledger.ErrConflict
}

func (refusing) CloseRun(context.Context, ledger.Run, []ledger.Outcome) (ledger.Run, bool, error) {
	return ledger.Run{}, false, ledger.ErrConflict
}

// TestARefusedRunEndsAtOnce: what the ledger refuses for good ends the run with the
// batch that shows it, and not when every node has run.
func TestARefusedRunEndsAtOnce(t *testing.T) {
	const nodes = 700
	env := environment(t, refusing{})
	calls := 0
	env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "engine/pass" {
			calls++
		}
	})
	ordinary := strings.ReplaceAll(chain(nodes), "timeout_ms: 500", "timeout_ms: 5000")
	env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: ordinary, Input: json.RawMessage(`{"x":"y"}`)})
	var application *temporal.ApplicationError
	require.ErrorAs(t, env.GetWorkflowError(), &application)
	require.Equal(t, string(contract.Conflict), application.Type())
	require.GreaterOrEqual(t, calls, 500, "a batch's worth")
	require.Less(t, calls, 600)
}
