package raced

import "testing"

// Skip skips a test if the race detector watches, in which that finds nothing, since the
// test computes in one goroutine or has other processes work: it runs without.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("it runs without the race detector")
	}
}
