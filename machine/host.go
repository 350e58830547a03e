package machine

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Host is the machine whose root is mounted at a directory, as in a pod with hostPID and hostNetwork: its files are
// below it, and its commands run in it.
func Host(root string) *Machine {
	m := At(root)
	if filepath.Clean(root) != "/" {
		m.Runner = hostRunner{root}
	}
	m.Superuser = New().Superuser
	return m
}

// hostRunner runs the host's programs in the host's root. Systemctl is told that it speaks to the systemd outside.
type hostRunner struct{ root string }

var _ Runner = hostRunner{}

func (h hostRunner) Run(ctx context.Context, c Command) error {
	args := append([]string{c.Name}, c.Args...)
	cmd := exec.CommandContext(ctx, "/usr/bin/env", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = c.In, c.Out, c.Err, "/"
	cmd.Env = append([]string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_IGNORE_CHROOT=1",
	}, c.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: h.root}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == notInPath {
		return fmt.Errorf("%s: %w", c.Name, ErrNotFound)
	}
	return err
}

// notInPath is the exit status of env(1) for a program that is not there.
const notInPath = 127
