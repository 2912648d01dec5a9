// Package lengthy leaves out of make test what takes long there: its tests run with -short.
// make long runs all of them.
package lengthy

import "testing"

// Skip skips a test that takes long, or that varies what a shorter one tests, if it runs with
// -short.
func Skip(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: make long runs it")
	}
}
