package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/phases/machine"
)

func newReset(s phases.Streams) *cobra.Command {
	var o phases.Options
	cmd := &cobra.Command{
		Use:   "reset [flags] [-- kubeadm reset flags]",
		Short: "Take this machine out of its cluster: kubeadm reset, and what ccmadm wrote here",
		Long: `Runs "kubeadm reset", and removes what ccmadm has written on this machine. Objects in the cluster stay, since
other machines use them. Everything behind -- goes to kubeadm.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if stray := beforeDash(cmd, args); len(stray) > 0 {
				return finding.Usagef("reset takes no arguments: %q", stray).
					WithHint("flags of kubeadm go behind --: ccmadm reset -- %s", stray[0])
			}
			return phases.Reset(cmd.Context(), phases.NewReset(machine.New(), o, s, version), args)
		},
	}
	cmd.Flags().BoolVarP(&o.Force, "force", "f", false, "do not ask")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would go, and change nothing")
	cmd.Flags().StringSliceVar(&o.IgnorePreflightErrors, "ignore-preflight-errors", nil, "kubeadm checks whose failure is only a warning")
	return cmd
}

// beforeDash are the arguments in front of --.
func beforeDash(cmd *cobra.Command, args []string) []string {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return args[:n]
	}
	return args
}
