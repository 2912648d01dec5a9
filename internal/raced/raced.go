//go:build race

package raced

// Enabled reports whether the race detector watches.
const Enabled = true
