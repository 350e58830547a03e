package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/provider/controlplane"
	"github.com/ccmadm/ccmadm/provider/egress"
	"github.com/ccmadm/ccmadm/provider/routes"
)

func newReset(s workflow.Streams) *cobra.Command {
	var o workflow.Inputs
	cmd := &cobra.Command{
		Use:   "reset [flags] [-- kubeadm reset flags]",
		Short: "Remove this machine from its cluster: kubeadm reset, and ccmadm's files",
		Long: `Runs "kubeadm reset", and removes what ccmadm wrote on this machine, and the node agent's pod routes, masquerading, egress rules
and shield of the control plane's address from the kernel. Objects in the cluster stay, since other machines use them. Flags after --
go to kubeadm; --dry-run, --force and a ResetConfiguration with dryRun are for both.`,
		Example: "  ccmadm reset\n  ccmadm reset --force -- --cleanup-tmp-dir",
		RunE: func(cmd *cobra.Command, args []string) error {
			if stray := beforeDash(cmd, args); len(stray) > 0 {
				return finding.Usagef("reset takes no arguments: %q", stray).
					WithHint("flags of kubeadm go after --: ccmadm reset -- %s", stray[0])
			}
			rest, err := bootstrap.ResetFlags(&o, args)
			if err != nil {
				return err
			}
			m := machine.New()
			m.PodNetwork = podNetwork
			return bootstrap.Reset(cmd.Context(), record.NewBare(m, o, s, version), rest)
		},
	}
	cmd.Flags().BoolVarP(&o.Force, "force", "f", false, "do not ask")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would go, and change nothing")
	cmd.Flags().StringSliceVar(&o.IgnorePreflightErrors, "ignore-preflight-errors", nil, "kubeadm checks whose failure is only a warning")
	return cmd
}

// podNetwork finds what agents have left in the kernel of this machine.
func podNetwork() (lines []string, remove func() error, err error) {
	kernel, err := routes.OpenKernel(netns.None())
	if err != nil {
		return nil, nil, err
	}
	sender, err := egress.OpenKernel(netns.None())
	if err != nil {
		kernel.Close()
		return nil, nil, err
	}
	closeAll := func() { kernel.Close(); sender.Close() }
	left, err := kernel.Leftovers()
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	sent, err := sender.Leftovers()
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	lines = append(left.Lines(), sent...)
	shielded, err := controlplane.Shielded()
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	if shielded {
		lines = append(lines, controlplane.ShieldLine)
	}
	return lines, func() error {
		defer closeAll()
		return errors.Join(kernel.Remove(left), sender.Remove(), controlplane.Unshield())
	}, nil
}

// beforeDash are the arguments in front of --.
func beforeDash(cmd *cobra.Command, args []string) []string {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return args[:n]
	}
	return args
}
