//go:build !linux

package devserver

import "syscall"

// bindToParent does nothing: only Linux ties a child to its parent's life.
func bindToParent(*syscall.SysProcAttr) {}
