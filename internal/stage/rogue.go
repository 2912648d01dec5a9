package stage

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"chimera.ai/engine/contract"
)

// Ask calls an activity of the hosts of a test as a workflow of anybody may: one of those of
// the engine and the guardian, or a node on a queue.
func Ask(t testing.TB, queue, name string, call contract.Call, out any) error {
	t.Helper()
	s := sceneOf(t)
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(patience)
	s.mu.Lock()
	env.SetDataConverter(s.converter)
	if s.activities[name] != nil {
		env.RegisterActivityWithOptions(s.activity(name), activity.RegisterOptions{Name: name})
	} else {
		env.RegisterDynamicActivity(func(ctx context.Context, args converter.EncodedValues) (contract.Outcome, error) {
			return s.node(ctx, queue, args)
		}, activity.DynamicRegisterOptions{})
	}
	s.mu.Unlock()
	value, err := env.ExecuteActivity(name, call)
	if err != nil || out == nil {
		return err
	}
	require.NoError(t, value.Get(out))
	return nil
}

// Stand stands in the place of an activity: it gets what that would, and answers for it
// unless both of its results are nil. Then the activity is called.
type Stand func(ctx context.Context, asked any) (answer any, err error)

// Instead puts a stand in the place of an activity of the hosts of a test, or in that of all
// nodes on a queue, or takes it away again.
func Instead(t testing.TB, activityOrQueue string, f Stand) {
	s := sceneOf(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead[activityOrQueue] = f
}

// Gate holds up the calls of an activity, or of all nodes on a queue, until it is opened.
func Gate(t testing.TB, activityOrQueue string) (open func()) {
	gate := make(chan struct{})
	Instead(t, activityOrQueue, func(ctx context.Context, _ any) (any, error) {
		select {
		case <-gate:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	return func() { close(gate) }
}
