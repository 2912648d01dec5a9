//go:build unix

package process

import (
	"os"
	"os/exec"
	"strconv"
)

// guard is a watchdog: a shell that reads from a pipe whose other end only
// this process holds. Its read ends when this process dies, and it kills the
// group, and where there is a /proc and a grep what carries the mark.
// PR_SET_PDEATHSIG alone reaches the child but not what the child has started
// (a server behind npx, for instance).
type guard struct {
	cmd  *exec.Cmd
	hold *os.File
}

// The second round catches what was started during the first.
const guardScript = `
read -r _
kill -s KILL -- "-$1"
for round in 1 2; do
	for file in $(grep -lszxF -e "$2" /proc/[0-9]*/environ); do
		pid=${file#/proc/}
		kill -s KILL "${pid%/environ}"
	done
done 2>/dev/null
`

// watch starts the watchdog of a group and a mark, as the user of the child, whom it may signal, or
// returns nil if that fails: it is only the last of several safeguards.
func watch(pgid int, mark string, as *User) *guard {
	r, w, err := os.Pipe()
	if err != nil {
		return nil
	}
	cmd := exec.Command("/bin/sh", "-c", guardScript, "sh", strconv.Itoa(pgid), mark)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.Dir = "/"
	cmd.Stdin = r
	// A group of its own: it must outlive what ends this process's group.
	cmd.SysProcAttr = as.apart()
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
