package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/providers"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// workflowFlags are what init and join have in common. Names are kubeadm's wherever the meaning is.
type workflowFlags struct {
	options     workflow.Inputs
	credentials []string
	mode        string
	verbose     bool
	nodeAgent   bool
	routes      bool
	serving     bool
	timeout     metav1.Duration
}

// declare adds the flags.
func (w *workflowFlags) declare(flags *pflag.FlagSet) {
	o := &w.options
	flags.StringVar(&o.ConfigFile, "config", "", "kubeadm configuration, with or without a CloudConfiguration document")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig to use instead of this machine's own")
	flags.StringSliceVar(&o.IgnorePreflightErrors, "ignore-preflight-errors", nil, "checks, kubeadm's or ccmadm's, whose failure is only a warning; 'all' for each")
	flags.BoolVar(&o.DryRun, "dry-run", false, "show what would change, and change nothing")
	declareVerbose(flags, &w.verbose)
	flags.BoolVar(&o.Force, "force", false, "replace a static pod manifest that was edited by hand, and fields that another field manager owns")
	flags.StringVar(&o.Flags.Provider, "provider", "", "provider, or auto to ask the machine's DMI data (default onprem)")
	flags.StringVar(&o.Flags.Profile, "profile", "", "file with a provider profile of your own")
	flags.StringVar(&o.Flags.ClusterName, "cluster-name", "", "name given to the provider (default: from the cluster's CA)")
	flags.StringVar(&w.mode, "mode", "", "StaticPod, DaemonSet, Deployment or Manual (default Auto)")
	flags.StringVar(&o.Flags.ControllerManager.Image, "image", "", "cloud-controller-manager image instead of the profile's")
	flags.StringVar(&o.Flags.ControllerManager.Version, "image-tag", "", "tag instead of the profile's")
	flags.StringVar(&o.Flags.CloudConfig.File, "cloud-config", "", "the provider's configuration file")
	flags.StringArrayVar(&w.credentials, "credential", nil, "KEY=FILE or KEY=env:NAME, one of the provider's credentials; may be repeated")
	if o.Role == kubeadm.RoleInit {
		flags.BoolVar(&w.nodeAgent, "node-agent", false, "run the provider's agent on each node, which announces addresses of load balancers")
		flags.BoolVar(&w.routes, "routes", false, "let the provider program routes to pods; onprem's node agent also connects them where no CNI plugin does")
		flags.BoolVar(&w.serving, "serving-certificates", false, "approve the serving certificates that kubelets with serverTLSBootstrap ask for")
		flags.StringVar(&o.Flags.Inventory, "inventory", "", "list of the site's machines, for a provider that serves those")
	}
	flags.StringVar(&o.Flags.ControlPlaneVIP.Address, "control-plane-vip", "", "address of the control plane that moves to a machine whose API server answers")
	flags.StringVar(&o.Flags.ControlPlaneVIP.Interface, "control-plane-vip-interface", "", "network interface of --control-plane-vip (default: the one with a subnet that holds it)")
	flags.StringVar(&o.Flags.NodeIP, "node-ip", "", "Auto, Default, an address, a pair of addresses, or a CIDR (default Auto)")
	flags.DurationVar(&w.timeout.Duration, "timeout", 0, "how long to wait for the node (default 5m)")
}

// newRun builds what the phases are given.
func (w *workflowFlags) newRun(cmd *cobra.Command, s workflow.Streams, single bool) (*workflow.Run, error) {
	o := w.options
	o.Single, o.Quiet = single, !w.verbose
	o.CheckFiles = checkFiles
	o.Flags.Mode = config.Mode(w.mode)
	o.Flags.Wait.Timeout = w.timeout
	if cmd.Flags().Changed("node-agent") {
		o.Flags.NodeAgent.Enabled = &w.nodeAgent
	}
	if cmd.Flags().Changed("routes") {
		o.Flags.Routes = &w.routes
	}
	if cmd.Flags().Changed("serving-certificates") {
		o.Flags.ServingCertificates.Enabled = &w.serving
	}
	var err error
	if o.Flags.Credentials, err = providers.Credentials(w.credentials); err != nil {
		return nil, err
	}
	if err := output.Check(o.Output, output.Text, output.JSON, output.YAML); err != nil {
		return nil, err
	}
	return workflow.New(cmd.Context(), machine.New(), o, s, version)
}

// declareVerbose declares whether what stays as it is has lines of its own.
func declareVerbose(flags *pflag.FlagSet, verbose *bool) {
	flags.BoolVar(verbose, "verbose", false, "list files and objects that stay unchanged, too")
}

// bindWorkflow gives a command its flags, those of kubeadm that users expect without a --, and its phases.
func bindWorkflow(cmd *cobra.Command, s workflow.Streams, w *workflowFlags, list []workflow.Phase) {
	flags := cmd.Flags()
	w.options.Kubeadm = kubeadm.Flags(w.options.Role)
	w.declare(flags)
	output.Var(cmd, &w.options.Output, "text, or json or yaml for one object per change of a node's state", output.Text, output.JSON, output.YAML)
	w.options.Kubeadm.VisitAll(func(f *pflag.Flag) {
		if flags.Lookup(f.Name) == nil && f.Name != "skip-phases" { // those are ours; kubeadm's own go after --
			flags.AddFlag(f) // the same flag in both sets: it travels once
		}
	})
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	workflow.Bind(cmd, list, names, func(sub *cobra.Command, args []string, single bool) (*workflow.Run, error) {
		if err := kubeadm.ParseFlags(w.options.Role, w.options.Kubeadm, args); err != nil {
			return nil, finding.Usagef("%w", err)
		}
		return w.newRun(sub, s, single)
	})
}

// commandLine is what runs a command again after an interruption, quoted for a shell: its flags as they were given, and its
// arguments. What is hidden is between machines, and stays away.
func commandLine(cmd *cobra.Command, args []string) string {
	words := strings.Fields(cmd.CommandPath())
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
	}
	words = append(words, args[:dash]...)
	words = append(words, flagWords(cmd.Flags(), func(f *pflag.Flag) bool { return !f.Hidden })...)
	if dash < len(args) {
		words = append(append(words, "--"), args[dash:]...)
	}
	return machine.ShellQuote(words...)
}

// flagWords are those flags that were given and that keep wants, as words of a command line: --NAME=VALUE, and of a list one word
// for each of its values. Nothing is quoted for a shell.
func flagWords(flags *pflag.FlagSet, keep func(*pflag.Flag) bool) []string {
	var words []string
	flags.Visit(func(f *pflag.Flag) {
		if !keep(f) {
			return
		}
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		}
		for _, value := range values {
			if f.Value.Type() == "stringSlice" && strings.ContainsAny(value, ",\"\n") { // it is read as a line of CSV
				value = `"` + strings.ReplaceAll(value, `"`, `""`) + `"`
			}
			words = append(words, "--"+f.Name+"="+value)
		}
	})
	return words
}
