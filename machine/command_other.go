//go:build !linux

package machine

import "syscall"

// endsWithParent is for workstations: only Linux ends a program with its parent, and machines of a cluster run it.
func endsWithParent() *syscall.SysProcAttr { return nil }
