// Package raced tells tests whether the race detector watches. It makes pure
// computation up to ten times slower and sees nothing there, so tests that compute
// much draw fewer or smaller cases under it; make test runs their packages again
// without it, where all are drawn.
package raced
