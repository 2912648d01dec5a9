//go:build race

package compiler

// raced: the race detector watches, which makes everything ten times slower, so
// that tests that draw many cases draw fewer. The full number is drawn without it.
const raced = true
