package activities

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/semaphore"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/plan"
)

// DefaultCompileWithin is how long a start waits for the compiler. It is less than
// an attempt of engine/load may take: a plan that takes longer is refused, whereas
// after a timeout of the attempt it would be retried, by this worker or another.
const DefaultCompileWithin = 100 * time.Second

// maxCompiling bounds the sources that a process compiles at a time, in bytes; a
// larger one is compiled alone. Compiling takes up to a hundred times the memory of
// the text, and clients may send any number of starts at once.
const maxCompiling = 2 << 20

// compilations holds those in progress, by source. However many runs start with the
// same plan, it is compiled once at a time; few plans are compiled in parallel, and
// large ones alone. The zero value is ready to use.
type compilations struct {
	mu    sync.Mutex
	under map[[sha256.Size]byte]*compilation
	// room is for maxCompiling bytes.
	room *semaphore.Weighted
}

// compilation is one call of the compiler, which cannot be interrupted.
type compilation struct {
	// waiting counts those waiting for it, guarded by the mutex of
	// compilations.
	waiting     int
	begun, done chan struct{}
	// plan and findings are set once it is done.
	plan     *plan.Plan
	findings diag.Diagnostics
	// crash is the panic of a compiler that panicked.
	crash error
}

// compile returns the plan of a source, or the findings that refuse it. An error
// means that the compiler took too long, or that ctx ended first.
func (e *Engine) compile(ctx context.Context, bench *Workbench, source string) (*plan.Plan, diag.Diagnostics, error) {
	within := e.CompileWithin
	if within == 0 {
		within = DefaultCompileWithin
	}
	c := e.compilations.join(bench.Edition+source, within, func(c *compilation) {
		err := recovered("the compiler", func() error {
			c.plan, c.findings = bench.Compile(source)
			return nil
		})
		if err != nil {
			c.crash = errors.Unwrap(err)
			c.findings = diag.Diagnostics{{Severity: diag.Error, Code: diag.PlanSyntax, Summary: err.Error()}}
		}
		if c.findings.HasErrors() {
			c.plan = nil
		}
	})
	defer e.compilations.leave(c)
	select {
	case <-c.begun:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-c.done:
		if c.crash != nil {
			activity.GetLogger(ctx).Error("the compiler panicked", "error", c.crash)
		}
		return c.plan, c.findings, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	case <-timer.C:
		return nil, nil, contract.Errorf(contract.TooLarge,
			"the plan was not compiled within %s: it is too large for this worker, or the worker has too much to do", within)
	}
}

// share is the room that the compilation of a source takes: at least so much that
// there are no more compilations than processors.
func share(source string) int64 {
	return int64(min(max(len(source), maxCompiling/max(2, runtime.GOMAXPROCS(0))), maxCompiling))
}

// join returns the compilation of a source, and begins one, once there is room, if
// none is in progress. The compilation holds its room for a bounded time, so that a
// long one does not block others.
func (a *compilations) join(source string, turn time.Duration, do func(*compilation)) *compilation {
	key, size := sha256.Sum256([]byte(source)), share(source)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.under == nil {
		a.under = map[[sha256.Size]byte]*compilation{}
		a.room = semaphore.NewWeighted(maxCompiling)
	}
	if c, ok := a.under[key]; ok {
		c.waiting++
		return c
	}
	c := &compilation{waiting: 1, begun: make(chan struct{}), done: make(chan struct{})}
	a.under[key] = c
	go func() {
		_ = a.room.Acquire(context.Background(), size) // fails with its context only
		release := sync.OnceFunc(func() { a.room.Release(size) })
		defer release()
		if !a.wanted(key, c) {
			return
		}
		defer time.AfterFunc(turn, release).Stop()
		close(c.begun)
		do(c)
		a.mu.Lock()
		delete(a.under, key)
		a.mu.Unlock()
		close(c.done)
	}()
	return c
}

// wanted reports whether anybody still waits for a compilation. If not, it is
// dropped.
func (a *compilations) wanted(key [sha256.Size]byte, c *compilation) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.waiting == 0 {
		delete(a.under, key)
	}
	return c.waiting > 0
}

func (a *compilations) leave(c *compilation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.waiting--
}
