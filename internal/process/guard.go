//go:build unix

package process

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// guard is a watchdog: a shell that reads from a pipe whose other end only
// this process holds. Its read ends when this process dies, and it kills the
// group. PR_SET_PDEATHSIG alone reaches the child but not what the child has
// started (a server behind npx, for instance).
type guard struct {
	cmd  *exec.Cmd
	hold *os.File
}

const guardScript = `read -r _; kill -s KILL -- "-$1"`

// watch starts the watchdog of a group, or gives nil where that fails: it is
// the last of several nets.
func watch(pgid int) *guard {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", strconv.Itoa(pgid))
	cmd.Env = []string{}
	cmd.Stdin = r
	// A group of its own: it must outlive what ends this process's group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = cmd.Start()
	r.Close()
	if err != nil {
		w.Close()
		return nil
	}
	return &guard{cmd: cmd, hold: w}
}

// dismiss ends the watchdog without letting it act.
func (g *guard) dismiss() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	g.hold.Close()
}
