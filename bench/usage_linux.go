package main

import (
	"syscall"
	"time"
)

// usage is what this process has worked so far, and the most memory that it had.
func usage() (worked time.Duration, mebibytes float64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), float64(u.Maxrss) / 1024
}
