package activities

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// maxCompiling bounds the sources that a process compiles at one time, in bytes; a
// larger one is compiled alone. A compiler takes up to a hundred times the memory
// of the text, and as many starts arrive at one time as clients please.
const maxCompiling = 2 << 20

// gate lets compilations in, in the order in which they come. The zero value is
// open.
type gate struct {
	once sync.Once
	free *semaphore.Weighted
}

// enter waits until a source may be compiled, or ctx ends. Who was let in leaves.
func (g *gate) enter(ctx context.Context, source string) (leave func(), err error) {
	g.once.Do(func() { g.free = semaphore.NewWeighted(maxCompiling) })
	n := int64(min(len(source), maxCompiling))
	if err := g.free.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() { g.free.Release(n) }, nil
}
