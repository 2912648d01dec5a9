//go:build !race

package compiler

// raced: the race detector watches.
const raced = false
