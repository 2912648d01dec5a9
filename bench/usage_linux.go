package main

import (
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what this process has worked so far, and the most memory that it had.
func usage() (worked time.Duration, mebibytes float64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), float64(u.Maxrss) / 1024
}

// cpuOf is the processor time that another process has used so far: the kernel
// has a clock for each, whose id is made of the process id (clock_getcpuclockid(3)).
func cpuOf(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &t); err != nil {
		return 0, fmt.Errorf("processor time of %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
