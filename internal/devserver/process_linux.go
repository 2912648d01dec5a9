package devserver

import "syscall"

// bindToParent has the kernel kill the child when the thread that started it
// ends; so that thread must live as long as the child does.
func bindToParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
