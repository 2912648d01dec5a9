package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
)

// waitingBank is an MCP server that says where it waits, before it starts, lists or answers a call, and goes
// on once a file says so. It counts its calls.
const waitingBank = `wait() { : > "at-$1"; while [ ! -e "go-$1" ]; do sleep 0.01; done; }
wait start
while read -r line; do
	id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
	answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
	case "$line" in
	*'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"bank","version":"1"}}' ;;
	*'"tools/list"'*) wait list; answer "{\"tools\":[$(cat tools)]}" ;;
	*'"tools/call"'*) echo pay >> "$LINES_FILE"; wait call; answer '{"content":[],"structuredContent":{"ok":true}}' ;;
	esac
done
`

const recalledPlan = `{apiVersion: chimera/v1, kind: Plan, name: pays, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: pay, template: bank/pay, commit_policy: {rollback: {none: "what is paid stays"}}}],
  edges: [$input.line -> pay.line, pay.ok -> $output.ok]}`

// newWaitingBank is a deployment with that server, of which one process runs at a time. Runs continue as new
// after so many events, or as they do in production if that is 0, and with more the call has a child if the
// events of all its retries would be too many.
func newWaitingBank(t *testing.T, after, retries int) (b *bank, digest string) {
	t.Helper()
	b = bankOf(t, bankPolicy, after, banked{fmt.Sprintf("pay, effect_class: committing, timeout_ms: 600000, retry_policy: {max_retries: %d, on: [unsent]}", retries), payTool})
	b.put(t, "main.sh", waitingBank)
	s := b.options.Servers["bank"]
	s.Sessions, s.MaxSessions = mcp.ByRun, 1
	b.options.Servers["bank"] = s
	b.again(t)
	return b, b.publish(t, recalledPlan)
}

// waits waits until the server waits at a place, and goes lets it go on.
func (b *bank) waits(t *testing.T, place string) {
	t.Helper()
	stage.Until(t, "the server waits at "+place, func() bool {
		_, err := os.Stat(filepath.Join(b.folder, "at-"+place))
		return err == nil
	})
}

func (b *bank) goes(t *testing.T, places ...string) {
	t.Helper()
	for _, place := range places {
		b.put(t, "go-"+place, "")
	}
}

// calling waits until the ledger has the call of the only effect of a run as begun.
func (b *bank) calling(t *testing.T, run client.WorkflowRun) {
	t.Helper()
	stage.Until(t, "the call is claimed", func() bool {
		if len(pendingOf(t, b, run)) == 0 {
			return false
		}
		records, err := b.ledger().Chain(t.Context(), ledger.RunChain(run.GetID(), run.GetRunID()), 0, 1000)
		require.NoError(t, err)
		for _, r := range records {
			e, err := ledger.DecodeEntry(r.Bytes)
			require.NoError(t, err)
			if e.Kind == ledger.DecisionMade {
				return b.row(t, run).State == ledger.Calling
			}
		}
		return false
	})
}

// pendingOf are the pending calls of a run.
func pendingOf(t *testing.T, b *bank, run client.WorkflowRun) (calls []*workflowpb.PendingActivityInfo) {
	t.Helper()
	about, err := b.h.Client().DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
	require.NoError(t, err)
	for _, a := range about.GetPendingActivities() {
		if a.GetActivityType().GetName() == "bank/pay" {
			calls = append(calls, a)
		}
	}
	return calls
}

func (b *bank) cancel(t *testing.T, run client.WorkflowRun) {
	t.Helper()
	require.NoError(t, b.h.Client().CancelWorkflow(t.Context(), run.GetID(), run.GetRunID()))
}

// notMade requires that a cancelled run ends, that its effect was not made, and that the ledger says so.
func (b *bank) notMade(t *testing.T, run client.WorkflowRun) {
	t.Helper()
	require.Error(t, stage.Await(t, b.h.Client(), run, nil)) // which waits for less than a call may take
	require.Equal(t, contract.RunCancelled, stage.State(t, b.h.Client(), run).State)
	require.Equal(t, ledger.Released, b.row(t, run).State)
	outcomes, err := b.ledger().Outcomes(t.Context(), run.GetID(), run.GetRunID(), ledger.Page{})
	require.NoError(t, err)
	require.Equal(t, "pay", outcomes[0].Node)
	require.Equal(t, ledger.NodeFailed, outcomes[0].Kind)
	require.Contains(t, string(outcomes[0].Error), `"kind":"unsent"`)
	require.Contains(t, string(outcomes[0].Error), "withdrawn")
	b.replays(t, run)
}

// TestRecalledEffects: an effect of which nothing was sent when its run is cancelled is not made, wherever
// its call waits. The server counts its calls.
func TestRecalledEffects(t *testing.T) {
	stage.Parallel(t)
	for place, goes := range map[string][]string{"start": nil, "list": {"start"}} {
		t.Run(place, func(t *testing.T) {
			if place == "start" {
				lengthy.Skip(t)
			}
			stage.Parallel(t)
			b, digest := newWaitingBank(t, 0, 0)
			b.goes(t, goes...)
			run := b.start(t, "waits", digest, `{"line":"a"}`)
			b.waits(t, place)
			b.calling(t, run)
			b.cancel(t, run)
			b.notMade(t, run)
			b.goes(t, "start", "list", "call")
			require.NoError(t, stage.Await(t, b.h.Client(), b.start(t, "next", digest, `{"line":"b"}`), nil))
			require.Equal(t, []string{"pay"}, b.written(t), "the call of the next run alone")
		})
	}
	t.Run("child", func(t *testing.T) { // which an earlier execution of the run has begun
		lengthy.Skip(t)
		stage.Parallel(t)
		b, digest := newWaitingBank(t, 12, 40)
		b.goes(t, "start")
		run := b.start(t, "waits", digest, `{"line":"a"}`)
		b.waits(t, "list")
		stage.Until(t, "the child has begun", func() bool {
			return len(events(t, b.h.Client(), run, enumspb.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED)) > 0
		})
		require.NoError(t, b.h.Client().CancelWorkflow(t.Context(), run.GetID(), ""))
		stage.Until(t, "the call is released", func() bool { return b.row(t, run).State == ledger.Released })
		b.goes(t, "list", "call")
		require.Error(t, b.awaits(t, run))
		require.Equal(t, contract.RunCancelled, stage.State(t, b.h.Client(), run).State)
		require.Empty(t, b.written(t))
		require.Greater(t, len(b.executions(t, run)), 1)
		for _, x := range b.executions(t, run) {
			b.replays(t, x)
		}
	})
	t.Run("session", func(t *testing.T) {
		lengthy.Skip(t)
		stage.Parallel(t)
		b, digest := newWaitingBank(t, 0, 0)
		b.goes(t, "start", "list")
		first := b.start(t, "first", digest, `{"line":"a"}`)
		b.waits(t, "call")
		second := b.start(t, "second", digest, `{"line":"b"}`)
		b.calling(t, second)
		b.cancel(t, second)
		b.notMade(t, second)
		b.goes(t, "call")
		require.NoError(t, stage.Await(t, b.h.Client(), first, nil))
		require.Equal(t, []string{"pay"}, b.written(t))
	})
}

// TestSentEffectsAreAwaited: a cancellation does not reach an effect that was sent. The run waits for its
// outcome, for longer than a worker may be silent.
func TestSentEffectsAreAwaited(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	b, digest := newWaitingBank(t, 0, 0)
	b.goes(t, "start", "list")
	run := b.start(t, "sent", digest, `{"line":"a"}`)
	b.waits(t, "call")
	b.cancel(t, run)
	var cancelled time.Time
	stage.Until(t, "the call is told, and has lasted on", func() bool {
		calls := pendingOf(t, b, run)
		require.Len(t, calls, 1, "the run waits for the call")
		if calls[0].GetState() == enumspb.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED && cancelled.IsZero() {
			cancelled = time.Now()
		}
		last := calls[0].GetLastHeartbeatTime()
		return !cancelled.IsZero() && last != nil && last.AsTime().After(cancelled.Add(11*time.Second))
	})
	b.goes(t, "call")
	require.Error(t, stage.Await(t, b.h.Client(), run, nil))
	require.Equal(t, contract.RunCancelled, stage.State(t, b.h.Client(), run).State)
	require.Equal(t, ledger.Settled, b.row(t, run).State)
	outcomes, err := b.ledger().Outcomes(t.Context(), run.GetID(), run.GetRunID(), ledger.Page{})
	require.NoError(t, err)
	require.Equal(t, ledger.NodeSucceeded, outcomes[0].Kind)
	require.Equal(t, []string{"pay"}, b.written(t))
	b.replays(t, run)
}
