// Package parallel makes calls side by side whose panics come back to the caller.
package parallel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Do calls f for 0 to n-1, side by side where that is worth it. What the
// calls share they only read, so that all comes out as if they were made in
// turn.
//
// No call panics on a goroutine of its own, where nobody could recover and the
// process would end: the first panic is handed to the caller as a *[Crash], once
// all calls under way have returned.
func Do(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var crash atomic.Pointer[Crash]
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					crash.CompareAndSwap(nil, crashOf(v))
				}
			}()
			for i := next.Add(1) - 1; i < int64(n) && crash.Load() == nil; i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	all.Wait()
	if c := crash.Load(); c != nil {
		panic(c)
	}
}

// Crash is the value of a panic that happened on another goroutine than the
// caller's.
type Crash struct {
	// Value is that of the panic.
	Value any
	// Stack is where it happened.
	Stack []byte
}

// crashOf keeps what a goroutine panicked with, which may have been handed to it.
func crashOf(v any) *Crash {
	if c, ok := v.(*Crash); ok {
		return c
	}
	return &Crash{Value: v, Stack: debug.Stack()}
}

// Error says what the panic said.
func (c *Crash) Error() string { return fmt.Sprint(c.Value) }

// Unwrap gives the panic's value, where it is an error.
func (c *Crash) Unwrap() error {
	err, _ := c.Value.(error)
	return err
}

// Trace is the stack of the goroutine that panicked.
func (c *Crash) Trace() []byte { return c.Stack }
