package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LimitsMemory says whether [Spec.Memory] holds on this system.
const LimitsMemory = true

// attributes of a child; a held one stops before its first instruction, until
// [limitMemory] lets it go.
func attributes(held bool, as *User) *syscall.SysProcAttr {
	attr := as.apart()
	attr.Pdeathsig, attr.Ptrace = syscall.SIGKILL, held
	return attr
}

// limitMemory bounds a held child and lets it go. os/exec has no place for
// limits, and a child that runs already may have started others that would go
// without. Core dumps, which would write its memory to disk, are off.
//
// Only the thread that forked may do this: it is the tracer.
func limitMemory(pid int, bytes uint64) error {
	var stop unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &stop, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for its first instruction: %w", err)
		}
	}
	if stop.Code != cldTrapped && stop.Code != cldStopped {
		// Killed before it began.
		return nil
	}
	for _, limit := range []struct {
		name     string
		resource int
		value    uint64
	}{{"RLIMIT_DATA", unix.RLIMIT_DATA, bytes}, {"RLIMIT_CORE", unix.RLIMIT_CORE, 0}} {
		if err := unix.Prlimit(pid, limit.resource, &unix.Rlimit{Cur: limit.value, Max: limit.value}, nil); err != nil {
			return fmt.Errorf("set %s: %w", limit.name, err)
		}
	}
	if err := unix.PtraceDetach(pid); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("let it go: %w", err)
	}
	return nil
}

// limitItself has a shell bound the child's memory before it becomes the child: the limits of another
// user's process are out of reach without CAP_SYS_RESOURCE, which root lacks in most containers.
func limitItself(cmd *exec.Cmd, bytes int64) {
	if cmd.Err != nil {
		return
	}
	path := cmd.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(cmd.Dir, path)
	}
	if path, cmd.Err = filepath.Abs(path); cmd.Err == nil {
		_, cmd.Err = exec.LookPath(path) // from the shell it would be a failure of the child
	}
	if cmd.Err != nil {
		return
	}
	cmd.Args = append([]string{"sh", "-c", `ulimit -d "$0" && ulimit -c 0 && exec "$@"`, strconv.FormatInt(max(bytes>>10, 1), 10), path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// Codes of siginfo_t for SIGCHLD, from sigaction(2).
const (
	cldTrapped = 4
	cldStopped = 5
)

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

// others holds the processes that existed before a child, which it cannot have started,
// and when they were listed.
type others struct {
	pids map[int]bool
	at   time.Time
}

const (
	// othersLast is how long others counts: later, a number can have been given to
	// another process.
	othersLast = time.Minute
	// othersServe is how long one list serves the children that start. Each process
	// that is newer than the list costs a look at its environment.
	othersServe = 10 * time.Second
)

// listed is the newest list of others.
var listed struct {
	sync.Mutex
	others
}

// knownOthers returns the newest list of others, or a new list if that one is too old.
func knownOthers() others {
	listed.Lock()
	defer listed.Unlock()
	if listed.pids == nil || time.Since(listed.at) > othersServe {
		listed.others = listOthers()
	}
	return listed.others
}

func listOthers() others {
	o := others{pids: map[int]bool{}, at: time.Now()}
	for _, pid := range processes() {
		o.pids[pid] = true
	}
	return o
}

// newest reports whether no process or thread has started since the unreaped child pid,
// so that it has left none behind. /proc/loadavg ends with the number assigned last, and
// a number in use is not assigned again. In a container the file may not be the kernel's,
// and may be out of date.
func newest(pid int) bool {
	const path = "/proc/loadavg"
	var on unix.Statfs_t
	if unix.Statfs(path, &on) != nil || on.Type != unix.PROC_SUPER_MAGIC {
		return false
	}
	load, err := os.ReadFile(path)
	fields := bytes.Fields(load)
	return err == nil && len(fields) > 0 && string(fields[len(fields)-1]) == strconv.Itoa(pid)
}

// processes lists the numbers of all processes.
func processes() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before an error is all there is
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sweep kills the processes that the unreaped child pid has left and that carry the mark
// in their environment, in any process group. Since reading an environment is slow, it
// skips processes that existed before the child.
func sweep(pid int, mark string, before others) {
	if newest(pid) {
		return
	}
	if time.Since(before.at) > othersLast {
		before.pids = nil
	}
	for range sweepRounds {
		pids := marked(mark, before.pids)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(sweepPause)
	}
}

// marked lists the living processes that carry the mark, except those to leave out.
func marked(mark string, out map[int]bool) []int {
	var pids []int
	for _, pid := range processes() {
		if out[pid] || pid == os.Getpid() {
			continue
		}
		// Another user's process cannot be read, a dead one is empty.
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
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
