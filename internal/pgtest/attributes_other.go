//go:build !linux

package pgtest

import "syscall"

func attributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: owner}
}

// children is not known here: they end by themselves a moment after the server.
func children(int) []int { return nil }
