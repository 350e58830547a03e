//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ccmadm/ccmadm/api/minors"
)

// upFlags say what a lab looks like.
type upFlags struct {
	name          string
	controlPlanes int
	workers       int
	ipFamily      string
	images        []string // archives for every machine
	binaries      []string // programs for /usr/local/bin
	build         buildFlags
}

func newUp(p *places) *cobra.Command {
	var flags upFlags
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Boot bare machines, building first what they need",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return up(cmd.Context(), cmd.OutOrStdout(), p, flags)
		},
	}
	addName(cmd, &flags.name)
	cmd.Flags().IntVar(&flags.controlPlanes, "control-planes", 1, "how many machines cp1, cp2 ...")
	cmd.Flags().IntVar(&flags.workers, "workers", 2, "how many machines w1, w2 ...")
	cmd.Flags().StringVar(&flags.ipFamily, "ip-family", ipv4, "addresses of the machines: ipv4, ipv6 or dual")
	cmd.Flags().StringArrayVar(&flags.images, "image", nil, "image archive to load on every machine (repeatable)")
	cmd.Flags().StringArrayVar(&flags.binaries, "binary", nil, "program to copy to /usr/local/bin of every machine (repeatable)")
	flags.build.declare(cmd)
	cmd.Flags().StringVar(&flags.build.kubernetes, "kubernetes", minors.Newest(), "minor version of Kubernetes")
	return cmd
}

// up is: what it needs, then the switch, then all machines side by side.
func up(ctx context.Context, out io.Writer, p *places, flags upFlags) error {
	started := time.Now()
	l, err := openLab(p, flags.name)
	if err != nil {
		return err
	}
	names, err := flags.machineNames()
	if err != nil {
		return err
	}
	if err := checkFamily(flags.ipFamily); err != nil {
		return err
	}
	s, err := build(ctx, out, p, flags.build)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	unlock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s, err = l.settle(s, flags); err != nil {
		return err
	}
	if err := ensureLimits(ctx, out, p, flags); err != nil {
		return err
	}
	if err := l.installSwitch(s); err != nil {
		return fmt.Errorf("install switch: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range names {
		group.Go(func() error {
			m, err := l.machine(name)
			if err != nil {
				return err
			}
			if err := m.bring(ctx, out, s); err != nil {
				return err
			}
			return m.equip(ctx, flags)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%w (clean up with: lab down --name %s)", err, l.name)
	}
	fmt.Fprintf(out, "[up] %d machines of lab %s are up after %.1fs\n", len(names), l.name, time.Since(started).Seconds())
	return nil
}

func (f upFlags) machineNames() ([]string, error) {
	if f.controlPlanes < 0 || f.controlPlanes > maxControlPlanes || f.workers < 0 || f.workers > maxWorkers {
		return nil, fmt.Errorf("%d control planes and %d workers: want at most %d and %d", f.controlPlanes, f.workers, maxControlPlanes, maxWorkers)
	}
	var names []string
	for n := range f.controlPlanes {
		names = append(names, fmt.Sprintf("cp%d", n+1))
	}
	for n := range f.workers {
		names = append(names, fmt.Sprintf("w%d", n+1))
	}
	return names, nil
}

// settle decides the settings at the first `up` of a lab; a later one adds machines of the same kind.
func (l lab) settle(wanted settings, flags upFlags) (settings, error) {
	if s, err := l.load(); err == nil {
		if s.Kubernetes != wanted.Kubernetes {
			return s, fmt.Errorf("lab %q has Kubernetes %s: remove it before it can have %s", l.name, s.Kubernetes, wanted.Kubernetes)
		}
		if family := cmp.Or(s.IPFamily, ipv4); family != flags.ipFamily {
			return s, fmt.Errorf("lab %q is %s: remove it before it can be %s", l.name, family, flags.ipFamily)
		}
		return s, nil
	}
	wanted.IPFamily = flags.ipFamily
	var endpoints []string
	for n := range max(flags.controlPlanes, 1) {
		endpoints = append(endpoints, netip.AddrPortFrom(l.addresses(wanted, 11+n)[0].Addr(), 6443).String())
	}
	wanted.Endpoints = strings.Join(endpoints, " ")
	return wanted, l.save(wanted)
}

// bring makes a machine run, whatever there is of it.
func (m machine) bring(ctx context.Context, out io.Writer, s settings) error {
	if m.pid() == 0 {
		if err := m.create(s); err != nil {
			return fmt.Errorf("create machine %s: %w", m.name, err)
		}
		if err := m.powerOn(s); err != nil {
			return fmt.Errorf("start machine %s: %w", m.name, err)
		}
	}
	complaint, err := m.waitReady(ctx)
	if err != nil {
		return fmt.Errorf("start machine %s: %w", m.name, err)
	}
	fmt.Fprintf(out, "[machine] %s runs, address %s\n", m.name, m.lab.addresses(s, m.index)[0].Addr())
	if complaint != "" {
		fmt.Fprintf(out, "[machine] %s: systemd is %s\n", m.name, complaint)
	}
	return nil
}

// equip gives a machine what the caller brought.
func (m machine) equip(ctx context.Context, flags upFlags) error {
	for _, binary := range flags.binaries {
		if err := m.copyIn(ctx, binary, "/usr/local/bin"); err != nil {
			return err
		}
	}
	for _, archive := range flags.images {
		if err := m.loadImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}
