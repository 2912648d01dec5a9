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

// cpuOf is known on Linux alone: elsewhere the server's part is missing.
func cpuOf(int) (time.Duration, error) { return 0, nil }
