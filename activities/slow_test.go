package activities_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// slow stores values in a slow store.
type slow struct{ give, keep time.Duration }

func (s slow) Keep(ctx context.Context, _ string, _ []contract.Value, _ bool) error {
	return lasting(ctx, s.keep)
}

func (s slow) Give(ctx context.Context, _ string, _ ...*contract.Value) error {
	return lasting(ctx, s.give)
}

func lasting(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return contract.Errorf(contract.StoreUnavailable, "%w", context.Cause(ctx))
	}
}

// TestASlowStore: an activity answers in time, however long the store takes for all
// that it reads and writes, and a call has all of its own time.
func TestASlowStore(t *testing.T) {
	// What the test environment gives an activity.
	const whole, grace = 10 * time.Minute, 10 * time.Second
	for name, c := range map[string]struct {
		store slow
		call  time.Duration
		kind  contract.Kind
		took  time.Duration
	}{
		"in time":                   {slow{8 * time.Second, 8 * time.Second}, time.Minute, "", 76 * time.Second},
		"reads take too long":       {slow{grace, 0}, time.Second, contract.StoreUnavailable, grace - time.Second},
		"writes take too long":      {slow{0, whole}, time.Second, contract.StoreUnavailable, whole - time.Second},
		"both take too long":        {slow{8 * time.Second, 8 * time.Second}, whole - grace - time.Second, contract.StoreUnavailable, whole - time.Second},
		"a call has all of its own": {slow{8 * time.Second, 0}, whole, contract.Timeout, whole - 2*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := environ(t, shape{timeout: (whole - grace).Milliseconds(), edges: []plan.Edge{into("a")}}.plan(t))
				tools := &activities.Tools{Plans: e.store, Values: c.store, Caller: caller(func(ctx context.Context, _ json.RawMessage) ([]json.RawMessage, error) {
					return []json.RawMessage{json.RawMessage(`1`)}, lasting(ctx, c.call)
				})}
				e.env.RegisterActivityWithOptions(tools.Node, activity.RegisterOptions{Name: "test/target"})
				e.env.SetTestTimeout(time.Hour)
				began := time.Now()
				_, err := e.env.ExecuteActivity("test/target", contract.Call{Plan: e.digest, Node: target, Deliveries: []contract.Delivery{value(0, `1`)}})
				require.Equal(t, c.took, time.Since(began).Round(time.Second))
				if f := read(t, err); c.kind == "" {
					require.Nil(t, f)
				} else {
					require.Equal(t, c.kind, f.kind, f.message)
				}
			})
		})
	}
}
