package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func newNode(s workflow.Streams) *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Change or show the kubelet flags of a machine in an existing cluster",
		Long: `Steps on one machine of a cluster that enters or leaves external cloud mode. "ccmadm adopt" and "ccmadm leave" run
them on each machine, or list the machines where you run them.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&root, "root", "/",
		"where the machine's root is mounted: in a pod with hostPID and hostNetwork, /host say")
	cmd.AddCommand(newNodeExternal(s, &root), newNodePlain(s, &root), newNodeShow(s, &root))
	return cmd
}

func newNodeExternal(s workflow.Streams, root *string) *cobra.Command {
	var o kubelet.NodeOptions
	cmd := nodeStep(s, root, &o, kubelet.External)
	cmd.Use = "external"
	cmd.Short = "Set the kubelet to external cloud mode, and keep the Node's address"
	cmd.Long = `Writes the kubelet's drop-in with --cloud-provider=external and --node-ip, restarts the kubelet, and waits
until it runs with these flags and responds. If it does not, its former flags are restored. Pods are not touched. The Node
gets no taint, so it is not initialized yet: "ccmadm adopt" does that.

A flag that is set in two places is refused, and so is a flag that would override ours. The command is idempotent: a second
run writes nothing and does not restart the kubelet.` + kubeletEndings()
	cmd.Example = "  ccmadm node external\n  ccmadm node external --node-ip 192.0.2.11"
	cmd.Flags().StringVar(&o.NodeIP, "node-ip", "",
		"the kubelet's address, or one of each family with a comma (default: what its Node has)")
	return cmd
}

func newNodePlain(s workflow.Streams, root *string) *cobra.Command {
	var o kubelet.NodeOptions
	cmd := nodeStep(s, root, &o, kubelet.Plain)
	cmd.Use = "plain"
	cmd.Short = "Take the kubelet out of external cloud mode"
	cmd.Long = `Removes the kubelet's drop-in and its file of flags, and --cloud-provider from the flags that kubeadm wrote when the
machine joined; restarts the kubelet, and waits until it runs without them and responds. If it does not, they are restored.
A flag in an administrator's file is refused.` + kubeletEndings()
	cmd.Example = "  ccmadm node plain"
	cmd.Flags().BoolVar(&o.Forget, "forget", false, "also remove ccmadm's notes on the cluster from this machine")
	cmd.Flags().BoolVar(&o.Purge, "purge", false, "also remove everything of ccmadm on this machine")
	return cmd
}

func kubeletEndings() string {
	return usage.ExitStatuses(usage.Endings{
		finding.ExitError:   "the kubelet did not answer with the new flags, and its former flags were restored",
		finding.ExitRefused: "nothing was changed",
	})
}

// nodeStep is a command that changes this machine's kubelet.
func nodeStep(
	s workflow.Streams, root *string, o *kubelet.NodeOptions,
	step func(context.Context, *workflow.Env, kubelet.NodeOptions) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			outliveReader()
			env := kubelet.NewNode(machine.Host(*root), *o, s, version)
			return usage.Observed(step(cmd.Context(), env, *o))
		},
	}
	declareWhose(cmd.Flags(), &o.Whose)
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", fleet.NodeTimeout, "how long the kubelet may take to come back")
	return cmd
}

// declareWhose declares which machine is meant.
func declareWhose(flags *pflag.FlagSet, w *kubelet.Whose) {
	flags.StringVar(&w.Node, "node", "", "refuse it on a machine that is not this Node's")
	flags.StringSliceVar(&w.CAs, "ca-cert-hash", nil,
		"refuse it on a machine of a cluster with none of these CAs, each sha256:HASH as for kubeadm join")
}

func newNodeShow(s workflow.Streams, root *string) *cobra.Command {
	var format output.Format
	var files []string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show the kubelet's version, its flags of cloud mode, and where each comes from",
		Long: `Reads the running kubelet's command line, and the files that feed it. Writes nothing. If several files set a flag, the
last one wins. RUNS is "no" if the kubelet was not restarted after the file was written.`,
		Example: "  ccmadm node show\n  ccmadm node show -o yaml",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			report, err := kubelet.ShowNode(cmd.Context(), machine.Host(*root), files...)
			if err != nil {
				return usage.Observed(err)
			}
			report.Release = version
			return usage.Observed(format.Write(s.Out, output.Object(report), func() error { return tabulateNode(s, report) }))
		},
	}
	format.Declare(cmd, output.Text, output.JSON, output.YAML)
	cmd.Flags().StringArrayVar(&files, "has", nil, "")
	_ = cmd.Flags().MarkHidden("has") // it is declared above
	return cmd
}

func tabulateNode(s workflow.Streams, report *kubelet.NodeReport) error {
	state := "does not run"
	if report.Kubelet != nil {
		state = fmt.Sprintf("runs, process %d", report.Kubelet.PID)
	}
	fmt.Fprintf(s.Out, "kubelet %s %s\n", report.Version, state)
	if len(report.Flags) == 0 {
		fmt.Fprintln(s.Out, "no flag of cloud mode is set")
		return nil
	}
	w := table.New(s.Out, "FLAG", "VALUE", "RUNS", "FROM")
	for _, f := range report.Flags {
		w.Row(f.Name, f.Value, table.YesNo(f.Runs), strings.Join(f.From, ", "))
	}
	return w.Flush()
}
