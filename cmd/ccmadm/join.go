package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newJoin(s workflow.Streams) *cobra.Command {
	var w workflowFlags
	w.options.Role, w.options.Operation = kubeadm.RoleJoin, record.Ordinary{}
	cmd := &cobra.Command{
		Use:   "join [HOST:PORT] [flags] [-- kubeadm join flags]",
		Short: "Join this machine to a cluster in external cloud mode",
		Long:  `Provider, mode and all other settings of the cluster come from the record that "ccmadm init" published there.`,
		Example: `  ccmadm join 198.18.0.2:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:...
  ccmadm join 198.18.0.2:6443 --token ... --discovery-token-ca-cert-hash ... --control-plane --certificate-key ...
  ccmadm join phase kubelet          # under a plain kubeadm join that comes later`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash > 1 || (dash < 0 && len(args) > 1) {
				return finding.Usagef("read arguments: %q is not expected after HOST:PORT; kubeadm's own flags go after --", args[1])
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&w.options.InstallUnit, "install-unit", false, "phase kubelet: install a unit that runs it at each boot, for machine images")
	bindWorkflow(cmd, s, &w, phases.Join())
	return cmd
}
