//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func newExec(p *places) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "exec MACHINE -- COMMAND [ARG...]",
		Short: "Run a command on a machine, with its streams and its exit code",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := existingLab(p, name)
			if err != nil {
				return err
			}
			m, err := l.runningMachine(args[0])
			if err != nil {
				return err
			}
			command := args[1:]
			if command[0] == "--" { // kept, because flags end at the machine's name
				command = command[1:]
			}
			if len(command) == 0 {
				return errors.New("no command given")
			}
			return m.become(command)
		},
	}
	addName(cmd, &name)
	cmd.Flags().SetInterspersed(false)
	return cmd
}

// become replaces the calling process by a command on the machine, so signals, terminal and exit code need no help.
func (m machine) become(command []string) error {
	hierarchies, err := hostCgroups()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		group := m.cgroup()
		if h.unified() {
			group += "/" + guests
		}
		if err := h.join(group); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	cmd := m.command(context.Background(), command...)
	if cmd.Err != nil {
		return cmd.Err
	}
	return unix.Exec(cmd.Path, cmd.Args, cmd.Env)
}

// command prepares a command in all namespaces of the machine.
func (m machine) command(ctx context.Context, command ...string) *exec.Cmd {
	args := append([]string{"--target", strconv.Itoa(m.pid()), "--all", "--"}, command...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = []string{"PATH=" + machinePath, "HOME=/root", "USER=root", "LANG=C.UTF-8", "TERM=" + cmp.Or(os.Getenv("TERM"), "dumb")}
	return cmd
}
