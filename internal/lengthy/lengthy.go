// Package lengthy skips tests that take long where go test is given -short, as by make test.
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
