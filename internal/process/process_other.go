//go:build unix && !linux

package process

import (
	"errors"
	"os/exec"
	"syscall"
)

// LimitsMemory says whether [Spec.Memory] holds on this system.
const LimitsMemory = false

func attributes(_ bool, as *User) *syscall.SysProcAttr { return as.apart() }

func limitMemory(int, uint64) error {
	return errors.New("not supported yet: a memory bound on this system")
}

func limitItself(*exec.Cmd, int64) {}

// awaitExit waits for the end of a child. Here it is reaped by that, which
// leaves an instant in which its group's number could be given away.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }

type others struct{}

func knownOthers() others { return others{} }

func sweep(int, string, others) {}
