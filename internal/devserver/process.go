package devserver

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// lead makes cmd the leader of a new process group that dies with us.
func lead(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bindToParent(cmd.SysProcAttr)
}

// killGroup kills the process group that pid leads. A group that is gone is no error.
func killGroup(pid int) error {
	err := syscall.Kill(-pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// environment is what the server's process gets: what an executable needs to
// run, and none of the user's Temporal settings or secrets.
func environment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
