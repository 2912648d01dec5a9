package compiler

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// sideBySide calls f for 0 to n-1, side by side where that is worth it. What the
// calls share they only read, so that all comes out as if they were made in
// turn.
func sideBySide(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers < 2 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	all.Wait()
}
