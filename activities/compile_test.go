package activities_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/parallel"
	"chimera.ai/engine/plan"
)

// A compiler that takes too long ends the run; it is neither asked again by
// Temporal, nor asked twice at one time.
func TestTheCompilerTakesTooLong(t *testing.T) {
	l := load(nil)
	want := (shape{}).plan(t)
	var calls atomic.Int64
	let := make(chan struct{})
	returned := make(chan struct{})
	l.engine.CompileWithin = 20 * time.Millisecond
	l.engine.Compile = func(source string) (*plan.Plan, diag.Diagnostics) {
		if source == "quick" {
			return want, nil
		}
		if calls.Add(1) == 1 {
			<-let
			defer close(returned)
		}
		return want, nil
	}
	for range 3 {
		_, f := l.start(t, `{"source":"slow"}`)
		require.NotNil(t, f)
		require.Equal(t, contract.TooLarge, f.kind)
		require.False(t, f.retried)
		require.Contains(t, f.message, "the plan was not compiled within 20ms")
	}
	require.EqualValues(t, 1, calls.Load(), "one source is compiled once at a time")
	l.engine.CompileWithin = 0
	for range 2 * runtime.GOMAXPROCS(0) {
		_, f := l.start(t, `{"source":"quick"}`)
		require.Nil(t, f, "nobody else waits for a plan that takes long")
	}
	close(let)
	<-returned
	loaded, f := l.start(t, `{"source":"slow"}`)
	require.Nil(t, f)
	require.NotNil(t, loaded)
}

// A panic on a goroutine of the compiler refuses the plan, too.
func TestTheCompilerPanicsElsewhere(t *testing.T) {
	l := load(nil)
	l.engine.Compile = func(string) (*plan.Plan, diag.Diagnostics) {
		panic(&parallel.Crash{Value: "no such thing", Stack: []byte("where it was")})
	}
	_, f := l.start(t, `{"source":"s"}`)
	require.Equal(t, contract.Contract, f.kind)
	require.False(t, f.retried)
	require.Contains(t, f.message, "the compiler panicked: no such thing")
	require.NotContains(t, f.message, "where it was")
}

// An attempt is over before Temporal gives it up: the workflow allows two minutes.
func TestCompileWithin(t *testing.T) {
	require.Less(t, activities.DefaultCompileWithin, 2*time.Minute)
}
