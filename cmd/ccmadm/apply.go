package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newApply(s workflow.Streams) *cobra.Command {
	o := workflow.Inputs{Role: kubeadm.RoleInit, Existing: true, Command: journal.CommandApply, Operation: record.Ordinary{}}
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Apply a configuration to the cluster, or repair drift from its record",
		Long: `Reconciles an existing cluster with a CloudConfiguration: image, arguments and environment of the
cloud-controller-manager, its configuration and credentials, the inventory, routes, lifecycle, the policy for node IPs, the
node agent; and the mode, StaticPod, DaemonSet or Deployment. A setting that the file omits keeps its value in the cluster's
record; an empty list removes the setting. Without -f, the record is applied again, which repairs drift: objects, and the
static pod of the cloud-controller-manager on this machine. Obsolete objects are deleted. The command is idempotent.

It runs on a control plane. In mode StaticPod, and in a change from it, it changes that machine's static pod, waits until
the cloud-controller-manager works, and names the control planes that are left: run ` + "`ccmadm apply`" + ` there, too.

Each change is in the journal first: ` + "`ccmadm journal`" + ` shows it, ` + "`ccmadm rollback`" + ` reverts it. The command is refused
while another run changes the cluster.` + usage.ExitStatuses(usage.Endings{
			finding.ExitNotInTime: "everything was applied, and the cloud-controller-manager was not ready in time",
			finding.ExitRefused:   "nothing was changed",
		}),
		Example: `  ccmadm diff -f cloud.yaml && echo nothing to do
  ccmadm apply -f cloud.yaml
  ccmadm apply            # repair what has drifted`,
		Args: usage.NoArgs,
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace a static pod manifest that was edited by hand, and fields that another field manager owns")
	declareTimeout(cmd, &o)
	bindApply(cmd, s, &o, func(*workflow.Run) {})
	return cmd
}

func newDiff(s workflow.Streams) *cobra.Command {
	o := workflow.Inputs{Role: kubeadm.RoleInit, Existing: true, DryRun: true, Operation: record.Ordinary{}}
	cmd := &cobra.Command{
		Use:   "diff",
		Short: "Show what ccmadm apply would change",
		Long: `Shows what ` + "`ccmadm apply`" + ` would change with the same file, or without a file what has drifted: each object as the
API server would store it, each file on this machine, each deletion. Values of Secrets are masked. Nothing is written.` +
			usage.ExitStatuses(usage.Endings{
				finding.ExitDone:    "nothing would change",
				finding.ExitFound:   "something would change",
				finding.ExitRefused: "`ccmadm apply` would refuse it",
			}),
		Example: `  ccmadm diff
  ccmadm diff -f cloud.yaml`,
		Args: usage.NoArgs,
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
			return usage.Observed(err)
		}
		if err := run.Refusal(); err != nil {
			return err
		}
		if run.Changed() {
			return usage.ErrFound
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
	var verbose bool
	declareVerbose(cmd.Flags(), &verbose)
	cmd.Flags().StringVarP(&o.ConfigFile, "filename", "f", "", "file with a CloudConfiguration (default: the cluster's record)")
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	workflow.Bind(cmd, manager.Apply(), names, func(sub *cobra.Command, _ []string, single bool) (*workflow.Run, error) {
		o.Single, o.Quiet, o.Line = single, !verbose, commandLine(sub, nil)
		r, err := workflow.New(sub.Context(), machine.New(), *o, s, version)
		if err == nil {
			made(r)
		}
		return r, err
	})
}
