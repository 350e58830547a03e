package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newApply(s workflow.Streams) *cobra.Command {
	o := workflow.Inputs{Role: kubeadm.RoleInit, Existing: true, Command: "apply", Operation: record.Ordinary{}}
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make the cluster agree with a configuration, or with its record",
		Long: `Makes a cluster that lives agree with a CloudConfiguration: image, arguments and environment of the
cloud-controller-manager, its configuration and credentials, the inventory, routes, lifecycle, the policy for node IPs, the
node agent; and the mode, StaticPod, DaemonSet or Deployment. What the file leaves out stays as the cluster's record
says; an empty list takes away. Without -f, everything is made to agree with the record, which repairs what has drifted:
objects, and the static pod of the manager on this machine. Objects that are wanted no more are deleted. A second run
changes nothing.

It runs on a control plane. In mode StaticPod, and on the way from it, it changes that machine's static pod, waits until
the manager works, and names the control planes that are not as far: ` + "`ccmadm apply`" + ` there does the same.

What it changes is in the journal before: ` + "`ccmadm journal`" + ` shows it, ` + "`ccmadm rollback`" + ` leads back.
While another run changes the cluster it is refused.` + exitStatuses(
			ending{finding.ExitNotInTime, "all was applied, and the cloud-controller-manager is not ready in time"},
			ending{finding.ExitRefused, "nothing was changed"}),
		Example: `  ccmadm diff -f cloud.yaml && echo nothing to do
  ccmadm apply -f cloud.yaml
  ccmadm apply            # repair what has drifted`,
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace a static pod manifest that was edited by hand, and fields that another manager owns")
	declareTimeout(cmd, &o)
	bindApply(cmd, s, &o, func(*workflow.Run) {})
	return cmd
}

func newDiff(s workflow.Streams) *cobra.Command {
	o := workflow.Inputs{Role: kubeadm.RoleInit, Existing: true, DryRun: true, Operation: record.Ordinary{}}
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what ccmadm apply would change",
		Long: `Shows what ` + "`ccmadm apply`" + ` would change with the same file, or without one what has drifted: each object as the API
server would have it, each file on this machine, each deletion. Values of Secrets are masked. Nothing is written.` + exitStatuses(
			ending{finding.ExitDone, "nothing would change"}, ending{finding.ExitFound, "something would change"},
			ending{finding.ExitRefused, "`ccmadm apply` would refuse it"}),
		Example: `  ccmadm diff
  ccmadm diff -f cloud.yaml`,
		Args: noArgs,
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "as with ccmadm apply")
	var run *workflow.Run
	bindApply(cmd, s, &o, func(r *workflow.Run) { run = r })
	for _, phase := range cmd.Commands() {
		cmd.RemoveCommand(phase) // the difference is one, of all phases
	}
	show := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := show(cmd, args); err != nil {
			return observed(err)
		}
		if err := run.Refusal(); err != nil {
			return err
		}
		if run.Changed() {
			return errFound
		}
		return nil
	}
	return cmd
}

func declareTimeout(cmd *cobra.Command, o *workflow.Inputs) {
	const usage = "how long to wait for the cloud-controller-manager (default 5m)"
	cmd.Flags().DurationVar(&o.Flags.Wait.Timeout.Duration, "timeout", 0, usage)
}

func bindApply(cmd *cobra.Command, s workflow.Streams, o *workflow.Inputs, made func(*workflow.Run)) {
	o.CheckFiles, o.Output = checkFiles, "text"
	cmd.Flags().StringVarP(&o.ConfigFile, "filename", "f", "", "file with a CloudConfiguration (default: the cluster's record)")
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	workflow.Bind(cmd, manager.Apply(), names, func(sub *cobra.Command, _ []string, single bool) (*workflow.Run, error) {
		o.Single = single
		r, err := workflow.New(sub.Context(), machine.New(), *o, s, version)
		if err == nil {
			made(r)
		}
		return r, err
	})
}
