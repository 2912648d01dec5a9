//go:build !linux

package main

import (
	"runtime"
	"time"
)

// usage is the memory that the runtime has taken; what the process has worked is
// known on Linux alone.
func usage() (worked time.Duration, mebibytes float64) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return 0, float64(m.Sys) / (1 << 20)
}
