package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LimitsMemory says whether [Spec.Memory] holds on this system.
const LimitsMemory = true

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// limitMemory bounds a child that runs already: os/exec has no place for
// limits. What the child starts later inherits them. Core dumps, which would
// write its memory to disk, are off.
func limitMemory(pid int, bytes uint64) error {
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes}, nil); err != nil {
		return fmt.Errorf("set RLIMIT_DATA: %w", err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil {
		return fmt.Errorf("set RLIMIT_CORE: %w", err)
	}
	return nil
}

// awaitExit waits for the end of a child and leaves it unreaped, so that its
// number still stands for its group.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// Sweeping looks again until nothing that carries the mark is left: a process
// may start another while it is being killed.
const (
	sweepRounds = 500
	sweepPause  = 2 * time.Millisecond
)

// sweep kills whatever carries the mark in its environment, wherever it went.
func sweep(mark string) {
	for range sweepRounds {
		pids := marked(mark)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(sweepPause)
	}
}

// marked lists the living processes that carry the mark.
func marked(mark string) []int {
	// The pattern is well formed, which is the only error.
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Another user's process cannot be read, a dead one is empty.
		env, err := os.ReadFile(file)
		if err == nil && hasVariable(env, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasVariable(env []byte, variable string) bool {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if string(entry) == variable {
			return true
		}
	}
	return false
}
