//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func newDown(p *places) *cobra.Command {
	var name string
	var all bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove a lab and every trace of it; the cache stays",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireRoot(); err != nil {
				return err
			}
			labs, err := allLabs(p)
			if !all {
				var l lab
				l, err = openLab(p, name)
				labs = []lab{l}
			}
			if err != nil {
				return err
			}
			for _, l := range labs {
				if err := l.down(cmd.Context(), cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			if err := restoreLimits(cmd.Context(), p); err != nil {
				return err
			}
			_ = os.Remove(p.state) // succeeds after the last lab: the folder was made by the first
			return nil
		},
	}
	addName(cmd, &name)
	cmd.Flags().BoolVar(&all, "all", false, "every lab")
	cmd.MarkFlagsMutuallyExclusive("name", "all")
	return cmd
}

// down undoes `up`, however far it came. What is not on record in the lab's folder is not touched.
func (l lab) down(ctx context.Context, out io.Writer) error {
	if _, err := os.Stat(l.dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(out, "[down] there is no lab %s\n", l.name)
		return nil
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := l.machines()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range all {
		group.Go(func() error {
			if err := m.remove(ctx); err != nil {
				return fmt.Errorf("remove machine %s: %w", m.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := l.removeSwitch(); err != nil {
		return err
	}
	if err := os.RemoveAll(l.dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "[down] removed lab %s and its %d machines\n", l.name, len(all))
	return nil
}

func (m machine) remove(ctx context.Context) error {
	if err := m.powerOff(ctx); err != nil {
		return err
	}
	if err := m.removeCgroups(); err != nil {
		return err
	}
	return os.RemoveAll(m.dir())
}

func (m machine) removeCgroups() error {
	hierarchies, err := hostCgroups()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := h.remove(m.cgroup()); err != nil {
			return err
		}
	}
	return nil
}

// lock keeps two commands from changing one lab at a time.
func (l lab) lock(ctx context.Context) (func(), error) {
	return lockFile(ctx, l.dir+".lock")
}
