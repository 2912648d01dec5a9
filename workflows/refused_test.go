package workflows_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
)

// refusing is a ledger that opens runs, and accepts nothing else about them.
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

// TestABatchThatWasNotWrittenIsSentAgain: outcomes that a ledger did not accept for
// an hour are sent when it is back, and not only when the run ends.
func TestABatchThatWasNotWrittenIsSentAgain(t *testing.T) {
	env := environment(t, noLedger{})
	env.SetWorkflowRunTimeout(24 * time.Hour)
	away := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, nil)
	env.OnActivity(contract.ActivityJournal, mock.Anything, mock.Anything).After(time.Hour).Return(contract.JournalReceipt{}, away).Once()
	var written []int
	env.OnActivity(contract.ActivityJournal, mock.Anything, mock.Anything).Return(func(_ context.Context, request contract.JournalRequest) (contract.JournalReceipt, error) {
		for _, e := range request.Entries {
			written = append(written, e.Node)
		}
		return contract.JournalReceipt{Request: request.Request, Root: request.Run.Root}, nil
	})
	const nodes = 510
	ordinary := strings.ReplaceAll(chain(nodes), "timeout_ms: 500,", "timeout_ms: 5000,")
	waits := "  - {id: waits, template: engine/fail, timeout_ms: 5000, with: {kind: tool_error, message: again}," +
		" retry_policy: {max_retries: 1, initial_ms: 7200000, max_ms: 7200000, on: [tool_error]}}\n"
	source := strings.Replace(ordinary, "edges:\n", waits+"edges:\n", 1)
	env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: source, Input: json.RawMessage(`{"x":"y"}`)})
	require.Error(t, env.GetWorkflowError(), "that of the node that waits")
	require.Len(t, written, nodes)
	require.IsIncreasing(t, written)
}
