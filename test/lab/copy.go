//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func newCopy(p *places) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "cp SRC MACHINE:DST | MACHINE:SRC DST",
		Short: "Copy a file or folder to or from a machine",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := existingLab(p, name)
			if err != nil {
				return err
			}
			from, source, fromMachine := strings.Cut(args[0], ":")
			to, target, toMachine := strings.Cut(args[1], ":")
			switch {
			case fromMachine && !toMachine:
				m, err := l.runningMachine(from)
				if err != nil {
					return err
				}
				return m.copyOut(cmd.Context(), source, args[1])
			case toMachine && !fromMachine:
				m, err := l.runningMachine(to)
				if err != nil {
					return err
				}
				return m.copyIn(cmd.Context(), args[0], target)
			}
			return fmt.Errorf("copy %s to %s: exactly one of them is MACHINE:PATH", args[0], args[1])
		},
	}
	addName(cmd, &name)
	return cmd
}

// The machine's own cp does the work, so links and folders mean there what they say. It reaches the host's file
// through an open descriptor, which a mount namespace does not hide.
const copyScript = `set -e; if [ -d "$2" ]; then set -- "$1" "$2/$3"; fi; exec cp -rHT --preserve=mode "$1" "$2"`

func (m machine) copyIn(ctx context.Context, source, target string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	base, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	return m.copyVia(ctx, f, "/proc/self/fd/3", target, filepath.Base(base))
}

func (m machine) copyOut(ctx context.Context, source, target string) error {
	parent, base := filepath.Split(target)
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		parent, base = target, filepath.Base(source)
	}
	f, err := os.Open(filepath.Clean(parent))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return m.copyVia(ctx, f, source, "/proc/self/fd/3/"+base, base)
}

func (m machine) copyVia(ctx context.Context, f *os.File, source, target, base string) error {
	cmd := m.command(ctx, "sh", "-c", copyScript, "sh", source, target, base)
	cmd.ExtraFiles = []*os.File{f}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy to or from %s: %w: %s", m.name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
