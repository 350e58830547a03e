package main

import (
	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newInit(s workflow.Streams) *cobra.Command {
	var w workflowFlags
	w.options.Role, w.options.Operation = kubeadm.RoleInit, record.Initialization{}
	cmd := &cobra.Command{
		Use:   "init [flags] [-- kubeadm init flags]",
		Short: "Make this machine the first control plane of a cluster in external cloud mode",
		Example: `  ccmadm init --pod-network-cidr 10.244.0.0/16
  ccmadm init --config kubeadm.yaml --cloud-config cloud.conf
  ccmadm init --inventory machines.yaml
  ccmadm init --mode DaemonSet -- --upload-certs --v=5
  ccmadm init phase kubeadm-config --config kubeadm.yaml && kubeadm init --config ` + machine.KubeadmConfig,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
				return finding.Usagef("read arguments: %q is not expected; kubeadm's own flags go after --", args[0])
			}
			return nil
		},
	}
	bindWorkflow(cmd, s, &w, phases.Init())
	return cmd
}
