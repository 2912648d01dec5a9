package devserver

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// lead makes cmd the leader of a new process group that dies with this process.
func lead(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bindToParent(cmd.SysProcAttr)
}

// killGroup kills the process group that pid leads, if it still exists.
func killGroup(pid int) error {
	err := syscall.Kill(-pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
