package parallel

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A panic of a goroutine that nobody can recover ends the process, and Temporal
// would give the same plan to the next worker.
func TestPanicsComeBackToTheCaller(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	cause := errors.New("no such thing")
	caught := func(f func()) (v any) {
		defer func() { v = recover() }()
		f()
		return nil
	}
	var calls atomic.Int64
	v := caught(func() {
		Do(1000, func(i int) {
			calls.Add(1)
			if i == 3 {
				injected(cause)
			}
		})
	})
	crash, ok := v.(*Crash)
	require.True(t, ok, "%v", v)
	require.EqualError(t, crash, "no such thing")
	require.ErrorIs(t, crash, cause)
	require.Contains(t, string(crash.Trace()), "injected", "the stack is that of the goroutine that panicked")

	v = caught(func() {
		Do(2, func(int) { Do(2, func(int) { panic("inside") }) })
	})
	crash, ok = v.(*Crash)
	require.True(t, ok, "%v", v)
	require.Equal(t, "inside", crash.Value, "a panic is wrapped once")

	calls.Store(0)
	require.Nil(t, caught(func() { Do(1000, func(int) { calls.Add(1) }) }))
	require.EqualValues(t, 1000, calls.Load())
}

//go:noinline
func injected(err error) { panic(err) }
