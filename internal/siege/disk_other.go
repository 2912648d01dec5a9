//go:build !linux

package siege

import "testing"

// mount makes no disk here.
func mount(testing.TB) string { return "" }
