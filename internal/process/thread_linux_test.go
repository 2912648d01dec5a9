package process

import "syscall"

func threadID() int { return syscall.Gettid() }
