package activities_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestKindOfAFailure: what a call returns, and what the interpreter reads.
func TestKindOfAFailure(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		kind contract.Kind
		want string
	}{
		{"a kind", contract.Errorf(contract.Throttled, "later"), contract.Throttled, "later"},
		{"a wrapped kind", fmt.Errorf("call: %w", contract.Errorf(contract.Auth, "no")), contract.Auth, "no"},
		{"an unknown kind", contract.Errorf("oops", "what"), contract.ServerError, `unknown kind "oops": what`},
		{"no kind", contract.Errorf("", "what"), contract.ServerError, `unknown kind ""`},
		{"a plain error", errors.New("broken"), contract.ToolError, "broken"},
		{"somebody's deadline", fmt.Errorf("dial: %w", context.DeadlineExceeded), contract.Timeout, "dial: "},
		{"somebody's cancellation", fmt.Errorf("dial: %w", context.Canceled), contract.Cancelled, "dial: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, f := call(t, shape{}, fails(c.err))
			require.Equal(t, c.kind, f.kind)
			require.Contains(t, f.message, c.want)
		})
	}
}

func TestRetried(t *testing.T) {
	on := []contract.Kind{contract.Auth, contract.ToolError, contract.Transport}
	for _, c := range []struct {
		name     string
		kind     contract.Kind
		spent    int
		attempts int
		want     bool
	}{
		{"a kind of the contract", contract.Transport, 0, 1, true},
		{"the same, after a lost worker", contract.Transport, 4, 5, true},
		{"a kind that the contract leaves out", contract.Timeout, 0, 1, false},
		{"a kind that is never retried", contract.Contract, 0, 1, false},
		{"auth, the first time", contract.Auth, 0, 1, true},
		{"auth, the second time", contract.Auth, 1, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := environ(t, shape{retry: plan.Retry{On: on}}.plan(t))
			_, f := e.tool(fails(contract.Errorf(c.kind, "no")), contract.Call{Node: target, Spent: c.spent})
			require.Equal(t, c.want, f.retried)
			require.Equal(t, c.attempts, f.attempts)
		})
	}
	for _, kind := range contract.Kinds() {
		_, f := call(t, shape{}, fails(contract.Errorf(kind, "no")))
		require.False(t, f.retried, "%s, which is not in an empty list", kind)
		require.Equal(t, kind, f.kind)
	}
}

func TestRetryAfter(t *testing.T) {
	for ms, want := range map[int64]time.Duration{
		0: 0, 1500: 1500 * time.Millisecond, -1: 0, -1 << 63: 0, 1<<63 - 1: 24 * time.Hour, 86_400_001: 24 * time.Hour,
	} {
		_, f := call(t, shape{retry: plan.Retry{On: []contract.Kind{contract.Throttled}}},
			fails(&contract.Error{Kind: contract.Throttled, RetryAfterMS: ms}))
		require.Equal(t, want, f.wait, ms)
		// The interpreter is told of every wait: it makes the request again for local
		// nodes, and when Temporal has used up its share of the attempts.
		require.Equal(t, want, f.later, ms)
		// A long wait is the interpreter's, which can continue as new meanwhile.
		require.Equal(t, want <= contract.ShortWait, f.retried)
	}
}

func TestDetails(t *testing.T) {
	const dropped = `{"dropped":"the details are too large, or are not JSON"}`
	for _, c := range []struct{ name, details, want string }{
		{"none", ``, ``},
		{"an object", `{"exit_code":1}`, `{"exit_code":1}`},
		{"just small enough", `"` + strings.Repeat("x", 8<<10-2) + `"`, `"` + strings.Repeat("x", 8<<10-2) + `"`},
		{"too large", `"` + strings.Repeat("x", 8<<10) + `"`, dropped},
		{"no JSON", `{`, dropped},
		{"not UTF-8", "\"\xff\"", dropped},
		{"two values in one text", `{"a":1,"a":2}`, dropped},
		{"too deep", deep(5000), dropped},
		{"a number beyond reading", `1e999999999`, dropped},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, f := call(t, shape{}, fails(&contract.Error{Kind: contract.ToolError, Details: json.RawMessage(c.details)}))
			require.Equal(t, contract.ToolError, f.kind)
			require.Equal(t, c.want, f.details)
			if f.details != "" {
				// The handler of the failure can read it.
				var seen string
				_, handled := call(t, shape{edges: []plan.Edge{into("$", onError)}}, echo(&seen), contract.Delivery{Edge: 0, Error: &contract.ErrorPayload{
					Kind: f.kind, Details: json.RawMessage(f.details),
				}})
				require.Nil(t, handled)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	for _, c := range []struct{ name, message, want string }{
		{"as it is", "näh", "näh"},
		{"the longest", strings.Repeat("x", 4<<10), strings.Repeat("x", 4<<10)},
		{"too long", strings.Repeat("x", 4<<10+1), strings.Repeat("x", 4<<10) + "…"},
		{"not through a letter", strings.Repeat("x", 4<<10-1) + "ä", strings.Repeat("x", 4<<10-1) + "…"},
		{"not UTF-8", "a\xffb\xc3", "a\uFFFDb\uFFFD"},
		{"nothing but broken", strings.Repeat("\x80", 10_000), "\uFFFD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, f := call(t, shape{}, fails(contract.Errorf(contract.ToolError, "%s", c.message)))
			require.Equal(t, c.want, f.message)
			require.True(t, utf8.ValidString(f.message))
		})
	}
}

func TestPanic(t *testing.T) {
	s := shape{retry: plan.Retry{On: []contract.Kind{contract.ToolError}}}
	_, f := call(t, s, caller(func(_ context.Context, input json.RawMessage) ([]json.RawMessage, error) {
		return []json.RawMessage{input[:1<<20]}, nil
	}))
	require.Equal(t, contract.ToolError, f.kind)
	require.Contains(t, f.message, "node target panicked: runtime error: slice bounds out of range")
	require.True(t, f.retried)
	require.NotContains(t, f.message, ".go:", "the stack is for logs")
}

// TestTimeout: a node's time is over whatever the call makes of it.
func TestTimeout(t *testing.T) {
	s := func() shape { return shape{timeout: 1, retry: plan.Retry{On: []contract.Kind{contract.Timeout}}} }
	late := func(err error) caller {
		return func(ctx context.Context, _ json.RawMessage) ([]json.RawMessage, error) {
			<-ctx.Done()
			if err == nil {
				err = ctx.Err()
			}
			return nil, err
		}
	}
	for name, err := range map[string]error{
		"the context's error": nil,
		"a plain error":       errors.New("killed"),
		"another kind":        contract.Errorf(contract.Transport, "closed"),
		"cancelled":           contract.Errorf(contract.Cancelled, "cancelled"),
	} {
		t.Run(name, func(t *testing.T) {
			_, f := call(t, s(), late(err))
			require.Equal(t, contract.Timeout, f.kind)
			require.Equal(t, "test/target did not answer within 1ms", f.message)
			require.True(t, f.retried)
		})
	}
	t.Run("provably unsent stays so", func(t *testing.T) {
		_, f := call(t, s(), late(contract.Errorf(contract.Unsent, "dial")))
		require.Equal(t, contract.Unsent, f.kind)
	})
	t.Run("an answer that is late all the same", func(t *testing.T) {
		out, f := call(t, s(), caller(func(ctx context.Context, _ json.RawMessage) ([]json.RawMessage, error) {
			<-ctx.Done()
			return []json.RawMessage{json.RawMessage(`1`)}, nil
		}))
		require.Nil(t, f)
		require.Empty(t, out.Values)
	})
}

// TestACallIsCutOff: a call that is cut off because its worker stops, or because
// the server did not take its heartbeats, is lost, not cancelled; the interpreter
// gives it to another worker.
func TestACallIsCutOff(t *testing.T) {
	for cause, want := range map[error]contract.Kind{
		worker.ErrWorkerShutdown:                       contract.WorkerLost,
		serviceerror.NewDeadlineExceeded("a busy one"): contract.WorkerLost,
		serviceerror.NewUnavailable("a server"):        contract.WorkerLost,
		context.Canceled:                               contract.Cancelled,
		temporal.NewCanceledError():                    contract.Cancelled,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		e := environ(t, shape{}.plan(t))
		e.env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
		_, f := e.tool(caller(func(ctx context.Context, _ json.RawMessage) ([]json.RawMessage, error) {
			cancel(cause)
			<-ctx.Done()
			return nil, contract.Errorf(contract.Cancelled, "the call was cancelled")
		}), contract.Call{Node: target, Spent: 2})
		require.Equal(t, want, f.kind, "%v", cause)
		require.Equal(t, 3, f.attempts)
		require.False(t, f.retried)
		require.True(t, f.benign, "nothing went wrong: it is no error in the log")
	}
	_, f := call(t, shape{}, caller(func(context.Context, json.RawMessage) ([]json.RawMessage, error) {
		return nil, contract.Errorf(contract.Cancelled, "somebody else's")
	}))
	require.False(t, f.benign)
}

func TestNoEffectRuns(t *testing.T) {
	for _, effect := range []plan.EffectClass{plan.Staged, plan.Committing, plan.Irreversible} {
		called := ""
		_, f := call(t, shape{effect: effect}, echo(&called))
		require.Equal(t, contract.Blocked, f.kind)
		require.Contains(t, f.message, "only the role effects calls")
		require.Empty(t, called)
	}
}

func TestThePlanCannotBeRead(t *testing.T) {
	e := environ(t, shape{retry: plan.Retry{On: []contract.Kind{contract.Transport}}}.plan(t))
	e.store.get = errors.New("disk\xff gone")
	_, f := e.tool(returns(`1`), contract.Call{Node: target, Spent: 2})
	require.Equal(t, contract.StoreUnavailable, f.kind)
	require.Equal(t, "the plan cannot be read: disk\uFFFD gone", f.message)
	require.False(t, f.retried, "the interpreter schedules it again, outside the contract")
	require.Equal(t, 3, f.attempts)

	e.store.get = nil
	for _, i := range []int{-1, 4} {
		_, f = e.tool(returns(`1`), contract.Call{Node: i})
		require.Equal(t, contract.Contract, f.kind)
		require.Contains(t, f.message, "has no node")
	}
}

// TestArgument: an argument that is not a call is refused before anything is done.
func TestArgument(t *testing.T) {
	e := environ(t, shape{}.plan(t))
	called := ""
	tools := &activities.Tools{Plans: e.store, Values: inline{}, Caller: echo(&called)}
	e.env.RegisterDynamicActivity(activities.Dynamic(tools.Node), activity.DynamicRegisterOptions{})
	_, err := e.env.ExecuteActivity("test/target", "hello")
	f := read(t, err)
	require.Equal(t, contract.WorkerLost, f.kind, "it names no request")
	require.Contains(t, f.message, "read the activity's argument")
	require.Empty(t, called)

	_, err = e.env.ExecuteActivity("test/target", contract.Call{Plan: e.digest, Node: target})
	require.NoError(t, err)
	require.Equal(t, `{}`, called)
}
