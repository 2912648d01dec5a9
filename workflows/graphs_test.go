package workflows_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/workflows"
)

// registry calls in-process skills.
type registry struct{ *skills.Registry }

func (r registry) Call(ctx context.Context, request activities.Request) (activities.Answer, error) {
	skill, ok := r.Lookup(request.Node.Provider, request.Node.Operation)
	if !ok {
		return activities.Answer{}, contract.Errorf(contract.Contract, "no skill %s", request.Node.Activity())
	}
	out, err := skill.Run(ctx, request.Input)
	return activities.Answer{Forms: []json.RawMessage{out}}, err
}

// noLedger stores nothing, and has no published plans.
type noLedger struct{ activities.Ledger }

func (noLedger) OpenRun(context.Context, ledger.Run) error                       { return nil }
func (noLedger) RecordOrder(context.Context, string, string, ledger.Order) error { return nil }

func (noLedger) RecordOutcomes(context.Context, string, string, []ledger.Outcome) error { return nil }
func (noLedger) CloseRun(_ context.Context, r ledger.Run, _ []ledger.Outcome) (ledger.Run, bool, error) {
	return r, false, nil
}

// environment is the interpreter with the real activities over a ledger, without a
// server.
func environment(t *testing.T, l activities.Ledger) *testsuite.TestWorkflowEnvironment {
	known, catalog, err := host.Catalog(nil, nil)
	require.NoError(t, err)
	store, err := blob.Open(filepath.Join(t.TempDir(), "blobs"))
	require.NoError(t, err)
	plans := payload.NewPlans(store, 0)
	engine := &activities.Engine{
		Compile: func(source string) (*plan.Plan, diag.Diagnostics) {
			return compiler.Compile(compiler.Source{Name: "plan.yaml", Text: []byte(source)}, catalog, nil)
		},
		Plans: plans, Skills: registry{known}, Ledger: l,
		Outputs: payload.NewOutputs(store, payload.Sealing{}, "default", false), Values: payload.NewValues(store, payload.Sealing{}, "default"),
	}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute) // of real time; the default of 3 s is short on a busy machine
	env.SetDataConverter(payload.NewConverter(plans, payload.Sealing{}))
	env.RegisterWorkflowWithOptions(workflows.Plan, workflow.RegisterOptions{Name: contract.WorkflowType})
	env.RegisterActivityWithOptions(engine.Load, activity.RegisterOptions{Name: contract.ActivityLoad})
	env.RegisterActivityWithOptions(engine.Local, activity.RegisterOptions{Name: contract.ActivityLocal})
	env.RegisterActivityWithOptions(engine.Route, activity.RegisterOptions{Name: contract.ActivityRoute})
	env.RegisterActivityWithOptions(engine.Write, activity.RegisterOptions{Name: contract.ActivityJournal})
	env.RegisterActivityWithOptions(engine.Close, activity.RegisterOptions{Name: contract.ActivityClose})
	env.RegisterDynamicActivity(activities.Dynamic(engine.Node), activity.DynamicRegisterOptions{})
	return env
}

func TestGraphsInTheInterpreter(t *testing.T) {
	for _, g := range stage.Graphs() {
		t.Run(g.Plan+" "+g.Input, func(t *testing.T) {
			env := environment(t, noLedger{})
			env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: g.Source(t), Input: json.RawMessage(g.Input)})
			require.True(t, env.IsWorkflowCompleted())
			var output json.RawMessage
			var failure *contract.Failure
			if err := env.GetWorkflowError(); err != nil {
				var application *temporal.ApplicationError
				require.ErrorAs(t, err, &application)
				require.NoError(t, application.Details(&failure))
			} else {
				require.NoError(t, env.GetWorkflowResult(&output))
			}
			value, err := env.QueryWorkflow(contract.QueryState)
			require.NoError(t, err)
			var state contract.State
			require.NoError(t, value.Get(&state))
			g.Check(t, string(output), failure, state)
		})
	}
}
