package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/workflows"
)

// world is a random plan with its operations, ready to run many times.
type world struct {
	*plangen.Case
	catalog *catalog.Catalog
	skills  registry
	outputs map[string]*plangen.Instances
	fails   map[string]bool
	inputs  *plangen.Instances
	output  *schemas.Schema

	plans  *payload.Plans
	engine *activities.Engine

	// watch sees each node that runs, and its outcome.
	watch func(call contract.Call, out contract.Outcome)
	// received is what the operations of nodes got last, by id.
	received map[string]json.RawMessage

	mu sync.Mutex
	r  *rand.Rand
	// failures are those of activities, by kind.
	failures []string
}

func newWorld(t *testing.T, c *plangen.Case, plans *payload.Plans, seed uint64) *world {
	w := &world{Case: c, plans: plans, received: map[string]json.RawMessage{}, outputs: map[string]*plangen.Instances{}, fails: map[string]bool{}, r: rand.New(rand.NewPCG(seed, 7))}
	own := new(catalog.Catalog)
	for _, op := range c.Operations {
		own.Templates = append(own.Templates, catalog.Template{
			ProviderType: plan.Skill, Provider: plangen.Provider, Operation: op.Name, Mode: plan.Deter, Effect: plan.Pure,
			InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: op.Output, TimeoutMS: 500,
			Trust: plan.AllowAuto, Status: plan.AllowAuto, InProcess: true, TrustedOutput: true,
		})
		var err error
		w.outputs[op.Name], err = plangen.NewInstances(op.Output)
		require.NoError(t, err)
		w.fails[op.Name] = op.Fails
	}
	known, catalog, err := host.Catalog(own, nil)
	require.NoError(t, err)
	w.skills, w.catalog = registry{known}, catalog
	w.inputs, err = plangen.NewInstances(c.Input)
	require.NoError(t, err)
	w.output, err = schemas.Compile(c.Output)
	require.NoError(t, err)
	store, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	w.engine = &activities.Engine{
		Compile: w.compile, Plans: plans, Skills: w, Ledger: noLedger{},
		Outputs: payload.NewOutputs(store, payload.Sealing{}, "default", false), Values: payload.NewValues(store, payload.Sealing{}, "default"),
	}
	return w
}

// Call implements activities.Caller: operations return what their schema says,
// and no more is known of them.
func (w *world) Call(ctx context.Context, r activities.Request) (activities.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received[r.Node.ID] = r.Input
	if r.Node.Provider != plangen.Provider {
		return w.skills.Call(ctx, r)
	}
	raw, err := w.draw(r.Node.Operation)
	return activities.Answer{Forms: []json.RawMessage{raw}}, err
}

// input draws an input of the plan.
func (w *world) input() (any, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inputs.Draw(w.r)
}

// watched sets what sees the nodes that are run.
func (w *world) watched(by func(call contract.Call, out contract.Outcome)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch = by
}

// draw returns what a call of an operation returns.
func (w *world) draw(operation string) (json.RawMessage, error) {
	if w.fails[operation] && w.r.IntN(2) == 0 {
		kinds := []contract.Kind{contract.ToolError, contract.Auth, contract.ServerError}
		return nil, contract.Errorf(kinds[w.r.IntN(len(kinds))], "%s", strings.Repeat("no", w.r.IntN(3)))
	}
	v, ok := w.outputs[operation].Draw(w.r)
	if !ok {
		return nil, contract.Errorf(contract.ToolError, "nothing matches the schema")
	}
	return plan.Canonical(v)
}

// ran sees a call of a node that is over.
func (w *world) ran(call contract.Call, out contract.Outcome, err error) {
	w.saw(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watch != nil {
		w.watch(call, out)
	}
}

// saw records the kind of an activity's failure.
func (w *world) saw(err error) {
	var application *temporal.ApplicationError
	if errors.As(err, &application) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failures = append(w.failures, application.Type()+": "+application.Message())
	}
}

// environment is the interpreter with the real activities, whose failures the
// world sees.
func (w *world) environment() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute) // of real time; the default of 3 s is short on a busy machine
	env.SetDataConverter(payload.NewConverter(w.plans, payload.Sealing{}))
	env.RegisterWorkflowWithOptions(workflows.Plan, workflow.RegisterOptions{Name: contract.WorkflowType})
	env.RegisterActivityWithOptions(w.engine.Load, activity.RegisterOptions{Name: contract.ActivityLoad})
	env.RegisterActivityWithOptions(func(ctx context.Context, call contract.Call) (contract.Outcome, error) {
		out, err := w.engine.Local(ctx, call)
		w.ran(call, out, err)
		return out, err
	}, activity.RegisterOptions{Name: contract.ActivityLocal})
	env.RegisterActivityWithOptions(func(ctx context.Context, request contract.RouteRequest) (contract.RouteResult, error) {
		out, err := w.engine.Route(ctx, request)
		w.saw(err)
		return out, err
	}, activity.RegisterOptions{Name: contract.ActivityRoute})
	env.RegisterActivityWithOptions(w.engine.Write, activity.RegisterOptions{Name: contract.ActivityJournal})
	env.RegisterActivityWithOptions(w.engine.Close, activity.RegisterOptions{Name: contract.ActivityClose})
	env.RegisterDynamicActivity(activities.Dynamic(func(ctx context.Context, call contract.Call) (contract.Outcome, error) {
		out, err := w.engine.Node(ctx, call)
		w.ran(call, out, err)
		return out, err
	}), activity.DynamicRegisterOptions{})
	return env
}

func (w *world) compile(source string) (*plan.Plan, diag.Diagnostics) {
	return compiler.Compile(compiler.Source{Name: "plan.yaml", Text: []byte(source)}, w.catalog, nil)
}

// quiet is a logger for runs whose failures are expected.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// wrong reports whether a failure is one that types and checked expressions
// exclude.
func wrong(kind contract.Kind) bool {
	return slices.Contains([]contract.Kind{contract.Expr, contract.Contract, contract.InvalidOutput, contract.TooLarge}, kind)
}

// run runs the plan once and reports what must not have happened.
func (w *world) run(t *testing.T, input any) (output json.RawMessage, faults []string) {
	raw, err := plan.Canonical(input)
	require.NoError(t, err)
	// A call may outlive its run.
	w.mu.Lock()
	w.failures = nil
	clear(w.received)
	w.mu.Unlock()
	env := w.environment()
	env.ExecuteWorkflow(contract.WorkflowType, contract.Start{Source: string(w.Source), Input: raw})
	require.True(t, env.IsWorkflowCompleted())
	w.mu.Lock()
	failures := slices.Clone(w.failures)
	w.mu.Unlock()
	for _, f := range failures {
		if kind, _, _ := strings.Cut(f, ":"); wrong(contract.Kind(kind)) {
			faults = append(faults, f)
		}
	}
	if err := env.GetWorkflowError(); err != nil {
		var application *temporal.ApplicationError
		require.ErrorAs(t, err, &application)
		var failure *contract.Failure
		require.NoError(t, application.Details(&failure))
		if wrong(failure.Kind) {
			faults = append(faults, fmt.Sprintf("the run fails: %+v", *failure))
		}
		return nil, faults
	}
	require.NoError(t, env.GetWorkflowResult(&output))
	if _, err := w.output.ValidateJSON(output); err != nil {
		faults = append(faults, fmt.Sprintf("the output %s: %v", output, err))
	}
	return output, faults
}
