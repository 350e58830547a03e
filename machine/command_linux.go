package machine

import "syscall"

// endsWithParent has the kernel end a program with the thread that started it.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
