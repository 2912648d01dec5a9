//go:build unix

// Package process starts child processes that cannot outlive their use.
//
// A child gets an explicit environment ([Environ]), three pipes, a process group of
// its own and, if it is to be kept from what this process holds, another user. When
// the child ends, however it ends, what is left of its group is killed before the
// child is reaped, so that the group's number cannot have been reused. On Linux there
// are two more safeguards: the child dies with this process (PR_SET_PDEATHSIG; the
// kernel ties that signal to the thread that forked, which is held until the child is
// reaped), and what left the group is found by a mark in its environment.
// [Spec.Guard] adds a watchdog that kills group and marked alike if this process dies.
//
// What escapes: a process that leaves the group and also drops the mark from
// its environment; outside Linux, any that leaves the group. A child of another
// user can end its watchdog, which runs as that user.
package process

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec says what to start.
type Spec struct {
	// Command is a path, or a name to find on this process's PATH.
	Command string
	Args    []string
	// Env is added to the names that every child gets; see [Environ].
	Env map[string]string
	// Dir is the working directory, or "" for this process's, and / if there is a User.
	Dir string
	// User is another user of this machine, by name or number, as whom the child runs, with no
	// supplementary groups and no terminal; or "" for that of this process. On Linux neither the child nor what it
	// starts can gain privileges (no_new_privs).
	User string
	// Memory bounds the private memory of each process of the group, in bytes
	// (RLIMIT_DATA, which a runtime's large reservations of address space do
	// not count against); 0 is no bound. It holds on Linux only, where the
	// child must be allowed to be traced until its first instruction (ptrace);
	// elsewhere Start refuses it.
	Memory int64
	// Guard adds a watchdog: a shell that kills the group when this process
	// dies without having stopped it. It is left out where there is no /bin/sh.
	Guard bool
}

// Process is a running child. Its owner closes the three pipes.
type Process struct {
	// PID is also the number of the process group.
	PID int
	// Stdin is the end to write to, Stdout and Stderr the ends to read from.
	// All three take deadlines.
	Stdin, Stdout, Stderr *os.File

	cmd  *exec.Cmd
	mark string
	// as is the other user as whom the child runs, or nil.
	as *User
	// before holds the processes that this child cannot have started.
	before others
	guard  *guard
	done   chan struct{}

	mu     sync.Mutex
	reaped bool
}

// killWait bounds the wait for a killed child. The kernel may hold a process
// back for as long as a device does not answer.
const killWait = 10 * time.Second

// Start starts a child. An error means that nothing runs.
func Start(s Spec) (*Process, error) {
	var as *User
	if s.User != "" {
		var err error
		if as, err = FindUser(s.User); err != nil {
			return nil, err
		}
	}
	env, err := environ(s.Env, as)
	if err != nil {
		return nil, err
	}
	if s.Memory < 0 || (s.Memory > 0 && !LimitsMemory) {
		return nil, fmt.Errorf("not supported yet: a memory bound of %d bytes on this system", s.Memory)
	}
	var raw [16]byte
	rand.Read(raw[:])
	p := &Process{mark: markName + "=" + hex.EncodeToString(raw[:]), as: as, done: make(chan struct{})}
	p.cmd = exec.Command(s.Command, s.Args...)
	p.cmd.Env = append(env, p.mark)
	p.cmd.Dir = s.Dir
	if s.Dir == "" && as != nil {
		if strings.ContainsRune(s.Command, filepath.Separator) && !filepath.IsAbs(s.Command) {
			return nil, fmt.Errorf("%s is relative to no folder, as the user %s", s.Command, as.Name) // whoever has looked at it was elsewhere
		}
		p.cmd.Dir = "/" // by a folder that is inherited, what is below a closed one can be read
	}
	if s.Memory > 0 && as != nil {
		limitItself(p.cmd, s.Memory)
		s.Memory = 0
	}
	p.cmd.SysProcAttr = attributes(s.Memory > 0, as)

	theirs, err := p.pipes()
	if err != nil {
		return nil, err
	}
	p.before = knownOthers()
	began := make(chan error)
	go p.live(s, began)
	err = <-began
	closeAll(theirs)
	if err != nil {
		p.closePipes()
		return nil, err
	}
	return p, nil
}

// live forks, reports whether the child runs, and reaps it, all on one thread, which
// is reserved for that while the child lives.
func (p *Process) live(s Spec, began chan<- error) {
	runtime.LockOSThread()
	switch {
	case p.as == nil:
		defer runtime.UnlockOSThread()
	case mainThread():
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.live(s, began)
		}()
		<-done // until then, this thread is not that goroutine's
		return
	default:
		// The thread is confined, and ends with this goroutine. The main thread does not end.
	}
	if err := p.fork(); err != nil {
		began <- err
		return
	}
	p.PID = p.cmd.Process.Pid
	if s.Memory > 0 {
		if err := limitMemory(p.PID, uint64(s.Memory)); err != nil {
			p.Kill()
			p.reap()
			began <- fmt.Errorf("bound the memory of the child: %w", err)
			return
		}
	}
	if s.Guard {
		p.guard = watch(p.PID, p.mark, p.as)
	}
	began <- nil
	p.reap()
}

// fork starts the child, as another user if there is one.
func (p *Process) fork() error {
	if p.as == nil {
		return p.cmd.Start()
	}
	err := confine()
	if err == nil {
		err = errors.Join(p.cmd.Start(), confined())
	}
	if err == nil {
		return nil
	}
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
	return fmt.Errorf("as the user %s, in %s: %w", p.as.Name, p.cmd.Dir, err)
}

func (p *Process) pipes() (theirs []*os.File, err error) {
	var ours []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			closeAll(theirs)
			return nil, fmt.Errorf("make pipes: %w", err)
		}
		if len(ours) == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	p.Stdin, p.Stdout, p.Stderr = ours[0], ours[1], ours[2]
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	return theirs, nil
}

func (p *Process) closePipes() { closeAll([]*os.File{p.Stdin, p.Stdout, p.Stderr}) }

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// reap waits for the child's end and clears what it left behind.
func (p *Process) reap() {
	awaitExit(p.cmd)
	p.signal(syscall.SIGKILL)
	if p.as != nil {
		see(p.as)
	}
	sweep(p.PID, p.mark, p.before)
	if p.guard != nil {
		p.guard.dismiss()
	}
	p.mu.Lock()
	p.reaped = true
	// Its error only repeats the state.
	_ = p.cmd.Wait()
	p.mu.Unlock()
	close(p.done)
}

// signal sends sig to the group, unless the child was reaped: its number may
// then be another's.
func (p *Process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		// ESRCH is the only possible error: no process is left.
		_ = syscall.Kill(-p.PID, sig)
	}
}

// Done is closed once the child has ended and been cleared away.
func (p *Process) Done() <-chan struct{} { return p.done }

// State returns how the child ended; it waits for Done.
func (p *Process) State() *os.ProcessState {
	<-p.done
	return p.cmd.ProcessState
}

// Kill kills the group at once and does not wait.
func (p *Process) Kill() { p.signal(syscall.SIGKILL) }

// Stop ends the child and waits: it closes Stdin, after a grace sends SIGTERM
// to the group, after another SIGKILL. It may be called more than once.
func (p *Process) Stop(grace time.Duration) error {
	// A second close of the same pipe is the only error.
	_ = p.Stdin.Close()
	if p.within(grace) {
		return nil
	}
	p.signal(syscall.SIGTERM)
	if p.within(grace) {
		return nil
	}
	p.Kill()
	if p.within(killWait) {
		return nil
	}
	return fmt.Errorf("process %d: %w", p.PID, errUndead)
}

var errUndead = errors.New("still there after SIGKILL")

func (p *Process) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}
