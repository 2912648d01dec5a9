package raced

import "testing"

// Skip skips a test that computes much, in one goroutine, if the race detector watches: it
// runs without.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("it runs without the race detector")
	}
}
