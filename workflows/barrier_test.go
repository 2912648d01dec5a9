package workflows_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/workflows"
)

// month is how long people are asked by the plan [asksLong].
const month = 30 * 24 * time.Hour

const asksLongCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, timeout_ms: 1000, retry_policy: {max_retries: 0},
     input_schema: {type: object}, output_schema: {type: object}, trust_requirement: allow_auto, status: allow_auto}
`

// asksLong has an effect for which people are asked, and nodes beside it, one after the
// other, for which there is one slot.
const asksLong = `{apiVersion: chimera/v1, kind: Plan, name: asks, version: "1", agent: tester, allow: [pure, committing], limits: {max_parallel: 1, deadline_ms: 2678400000},
  input_schema: {type: object}, output_schema: {type: object},
  nodes: [
    {id: write, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}], expires_in_ms: 2592000000}, rollback: {none: "it stays"}}},
    {id: a, template: engine/sleep, with: {ms: 1}, timeout_ms: 2000}, {id: b, template: engine/sleep, with: {ms: 1}, timeout_ms: 2000}],
  edges: [$input -> write, a -> b, write.$ -> $output.$]}`

// asking plays the activities of a run of [asksLong].
type asking struct {
	env     *testsuite.TestWorkflowEnvironment
	expires time.Time
	// signed counts the requests about signatures, and written the calls of the effect.
	signed, written int
	// requests counts the activities that were started, and timers the timers.
	requests, timers int
}

func newAsking(t *testing.T) *asking {
	t.Helper()
	own, ds := compiler.ParseCatalog(compiler.Source{Name: "catalog.yaml", Text: []byte(asksLongCatalog)})
	require.Empty(t, ds)
	_, operations, err := host.Catalog(own, nil)
	require.NoError(t, err)
	p, ds := compiler.Compile(compiler.Source{Name: "plan.yaml", Text: []byte(asksLong)}, operations, nil)
	require.NotNil(t, p, "%v", ds)
	store, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	a := &asking{env: suite.NewTestWorkflowEnvironment()}
	a.env.SetTestTimeout(time.Minute) // of real time; the default of 3 s is short on a busy machine
	a.env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	a.env.SetDataConverter(payload.NewConverter(payload.NewPlans(store, 0), payload.Sealing{}))
	a.env.RegisterWorkflowWithOptions(workflows.Plan, workflow.RegisterOptions{Name: contract.WorkflowType})
	register := func(name string, f any) {
		a.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	// succeeds is the outcome of a node all of whose values are empty objects.
	succeeds := func(node int, request string) contract.Outcome {
		out := contract.Outcome{Request: request}
		for range p.Nodes[node].OutPorts {
			out.Values = append(out.Values, json.RawMessage(`{}`))
		}
		for range p.Out(node) {
			out.Held = append(out.Held, true)
		}
		return out
	}
	node := func(_ context.Context, call contract.Call) (contract.Outcome, error) {
		if p.Nodes[call.Node].ID == "write" {
			a.written++
		}
		if p.Nodes[call.Node].Kind == plan.KindOutput {
			return contract.Outcome{Request: call.Request, Values: []contract.Value{json.RawMessage(`{}`)}}, nil
		}
		return succeeds(call.Node, call.Request), nil
	}
	register(contract.ActivityLoad, func(context.Context, contract.LoadRequest) (*plan.Loaded, error) {
		return &plan.Loaded{Plan: p, Head: plan.Head{Digest: digestOf(t, p), Input: succeeds(0, ""), ContinueAfter: 1000}}, nil
	})
	register(contract.ActivityLocal, node)
	a.env.RegisterDynamicActivity(activities.Dynamic(node), activity.DynamicRegisterOptions{})
	register(contract.ActivityJournal, func(_ context.Context, r contract.JournalRequest) (contract.JournalReceipt, error) {
		return contract.JournalReceipt{Request: r.Request, Root: r.Run.Root}, nil
	})
	register(contract.ActivityClose, func(_ context.Context, r contract.CloseRequest) (contract.Closed, error) {
		return contract.Closed{Root: r.Run.Root, End: r.End, Output: r.Output}, nil
	})
	register(contract.ActivityDecide, func(_ context.Context, call contract.Call) (contract.Decided, error) {
		return contract.Decided{Request: call.Request, Waiting: &contract.Waiting{Decision: "decision"}}, nil
	})
	register(contract.ActivityOpen, func(_ context.Context, r contract.OpenRequest) (contract.Opened, error) {
		a.expires = a.env.Now().Add(month).Truncate(time.Millisecond)
		return contract.Opened{Request: r.Request, Barrier: a.stands(contract.BarrierOpen)}, nil
	})
	register(contract.ActivitySign, func(_ context.Context, r contract.SignRequest) (contract.Signed, error) {
		a.signed++
		out := contract.Signed{Request: r.Request, Barriers: []contract.Barrier{a.stands(contract.BarrierOpen)}}
		if !a.env.Now().Before(a.expires) {
			out.Barriers[0].State = contract.BarrierExpired
		}
		for range r.Envelopes {
			out.Verdicts = append(out.Verdicts, contract.Verdict{Accepted: true})
			out.Barriers[0].State = contract.BarrierApproved
		}
		return out, nil
	})
	register(contract.ActivityConfirm, func(_ context.Context, call contract.Call) (contract.Decided, error) {
		return contract.Decided{Request: call.Request, Permit: new(contract.Permit)}, nil
	})
	a.env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) { a.requests++ })
	a.env.SetOnTimerScheduledListener(func(string, time.Duration) { a.timers++ })
	return a
}

func digestOf(t *testing.T, p *plan.Plan) string {
	t.Helper()
	raw, err := p.Encode()
	require.NoError(t, err)
	return plan.DigestOf(raw)
}

func (a *asking) stands(state contract.BarrierState) contract.Barrier {
	return contract.Barrier{ID: "barrier", State: state, ExpiresMS: a.expires.UnixMilli(), Missing: []contract.Group{{Role: "editor", Min: 1}}}
}

// TestABarrierWaitsAMonth: a run that waits for people for 30 days requests nothing in that
// time, and holds no slot: what is beside it runs at once. Then it goes on, or expires.
func TestABarrierWaitsAMonth(t *testing.T) {
	for name, c := range map[string]struct {
		// after is when somebody signs, or 0.
		after   time.Duration
		written int
	}{"signed on the last day": {month - time.Hour, 1}, "never signed": {0, 0}} {
		t.Run(name, func(t *testing.T) {
			a := newAsking(t)
			begun := a.env.Now()
			var meanwhile contract.State
			a.env.RegisterDelayedCallback(func() {
				value, err := a.env.QueryWorkflow(contract.QueryState)
				require.NoError(t, err)
				require.NoError(t, value.Get(&meanwhile))
				require.Zero(t, a.signed, "nobody is asked anything")
			}, time.Minute)
			if c.after != 0 {
				a.env.RegisterDelayedCallback(func() { a.env.SignalWorkflow(contract.SignalSignature, json.RawMessage(`{"payload":""}`)) }, c.after)
			}
			a.env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Input: json.RawMessage(`{}`)})
			require.True(t, a.env.IsWorkflowCompleted())
			err := a.env.GetWorkflowError()
			require.Equal(t, c.written, a.written, "%v", err)
			took := a.env.Now().Sub(begun)
			if c.after != 0 {
				require.NoError(t, err)
				require.Less(t, took, month)
			} else {
				require.ErrorContains(t, err, "(expired)")
				require.GreaterOrEqual(t, took, month-time.Second)
			}
			require.Equal(t, 2, meanwhile.Counts.Succeeded, "both nodes beside it")
			require.Len(t, meanwhile.Barriers, 1)
			require.Equal(t, 1, a.signed)
			// Of the activities, the load, the output and the end are local. The rest are those of
			// the three calls, the guardian's four answers, and a batch for the ledger, at most.
			require.LessOrEqual(t, a.requests, 12)
			require.Equal(t, 2, a.timers, "the deadline and the barrier")
			t.Logf("%s of run time: %d activities and %d timers", took, a.requests, a.timers)
		})
	}
}

// TestSignedWhileItOpened: a signature that the guardian accepts while a run waits for the answer
// that its barrier is open counts, whichever answer comes first; what the run is told about the
// barrier then may be older.
func TestSignedWhileItOpened(t *testing.T) {
	for _, first := range []string{contract.ActivitySign, contract.ActivityOpen} {
		t.Run(first, func(t *testing.T) {
			a := newAsking(t)
			landed := make(chan struct{}) // the first answer
			a.env.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
				if info.ActivityType.Name == contract.ActivityOpen && first == contract.ActivityOpen {
					close(landed)
				}
			})
			accepted := make(chan struct{})
			register := func(name string, f any) {
				a.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name, DisableAlreadyRegisteredCheck: true})
			}
			register(contract.ActivityOpen, func(ctx context.Context, r contract.OpenRequest) (contract.Opened, error) {
				a.expires = a.env.Now().Add(month).Truncate(time.Millisecond)
				out := contract.Opened{Request: r.Request, Barrier: a.stands(contract.BarrierOpen)} // nobody has signed yet
				a.env.UpdateWorkflow(contract.UpdateSign, "signature", &testsuite.TestUpdateCallback{
					OnAccept: func() {}, OnReject: func(err error) { t.Errorf("refused: %s", err) },
					OnComplete: func(any, error) {
						if first == contract.ActivitySign {
							close(landed)
						}
					},
				}, json.RawMessage(`{"payload":""}`))
				wait := accepted
				if first == contract.ActivitySign {
					wait = landed
				}
				select {
				case <-wait:
				case <-ctx.Done():
				}
				return out, nil
			})
			register(contract.ActivitySign, func(ctx context.Context, r contract.SignRequest) (contract.Signed, error) {
				a.signed++
				out := contract.Signed{Request: r.Request}
				for range r.Envelopes {
					out.Verdicts = append(out.Verdicts, contract.Verdict{Accepted: true, Barrier: "barrier"})
				}
				for range r.Barriers {
					out.Barriers = append(out.Barriers, a.stands(contract.BarrierApproved))
				}
				if len(r.Envelopes) > 0 {
					require.Empty(t, r.Barriers, "the run does not know that it is open")
					close(accepted)
					if first == contract.ActivityOpen {
						select {
						case <-landed:
						case <-ctx.Done():
						}
					}
				}
				return out, nil
			})
			begun := a.env.Now()
			a.env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Input: json.RawMessage(`{}`)})
			require.True(t, a.env.IsWorkflowCompleted())
			require.NoError(t, a.env.GetWorkflowError())
			require.Equal(t, 1, a.written)
			require.Equal(t, 2, a.signed, "the guardian is asked about the barrier once more")
			require.Less(t, a.env.Now().Sub(begun), time.Hour)
		})
	}
}
