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
