//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newKill(p *places) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "kill MACHINE",
		Short: "Cut the power of a machine; its disk stays, see start",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := existingLab(p, name)
			if err != nil {
				return err
			}
			m, err := l.runningMachine(args[0])
			if err != nil {
				return err
			}
			// The kernel forwards packets for a dead machine until it has cleared it away.
			if err := m.unplug(); err != nil {
				return err
			}
			if err := m.powerOff(cmd.Context()); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "[machine] %s is off\n", m.name)
			return nil
		},
	}
	addName(cmd, &name)
	return cmd
}

func newStart(p *places) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "start MACHINE",
		Short: "Boot a machine again that was killed or powered off",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := existingLab(p, name)
			if err != nil {
				return err
			}
			unlock, err := l.lock(cmd.Context())
			if err != nil {
				return err
			}
			defer unlock()
			m, err := l.machine(args[0])
			if err != nil {
				return err
			}
			s, err := l.load()
			if err != nil {
				return err
			}
			return m.bring(cmd.Context(), cmd.OutOrStdout(), s)
		},
	}
	addName(cmd, &name)
	return cmd
}
