package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/adoption"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/provider/balancer"
)

// ownRepository has the image that pods of ours run; with this version as its tag it is ownImage.
const (
	ownRepository = "ghcr.io/ccmadm/ccmadm"
	ownImage      = ownRepository + ":"
)

// adopter is the flags of adopt and leave.
type adopter struct {
	options     workflow.Inputs
	adoption    *adoption.Adoption // the inputs' operation
	credentials []string
	mode        string
	via         string
	binary      string
	rehearsed   bool
}

func newAdopter(command string, adoption *adoption.Adoption) adopter {
	return adopter{adoption: adoption, options: workflow.Inputs{
		Role: kubeadm.RoleInit, Existing: true, Command: command, Operation: adoption,
	}}
}

func newAdopt(s workflow.Streams) *cobra.Command {
	a := newAdopter("adopt", &adoption.Adoption{})
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Take a cluster that lives into external cloud mode, node by node",
		Long: `Takes a cluster that kubeadm has made, and that has no cloud provider, into external cloud mode, while its
pods run on. It runs on a control plane: it shows a plan and asks; brings the cloud-controller-manager up, which may
delete no Node yet; and then, one node at a time, sets the kubelet to external mode with the address that its Node
has, and has the Node initialized. When every node is known to the provider, Nodes whose machine is gone may be
deleted, and the cluster's record is written.

Steps on other machines are "ccmadm node external": run by hand where they are named (--via hand), in a privileged pod
that is there for the time of the step (--via pods), or with the OpenSSH client (--via ssh). It stops at the first
node that does not come through, and the same command goes on from there. "ccmadm leave" goes all the way back.` + exitStatuses(
			ending{finding.ExitPreflight, "the rehearsal found that a Node would be lost; nothing was changed"},
			ending{finding.ExitNotInTime, "a Node was not ready in time; the same command resumes"},
			ending{finding.ExitRefused, "nothing was changed"}),
		Example: `  ccmadm adopt --provider onprem --dry-run
  ccmadm adopt --provider onprem --via pods
  ccmadm adopt --provider aws -f cloud.yaml --rehearse`,
		Args: noArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&a.options.Flags.Provider, "provider", "", "built-in provider; \"auto\" asks the machine")
	flags.StringVar(&a.options.Flags.Profile, "profile", "", "file with a provider profile of your own")
	flags.StringVar(&a.mode, "mode", "", "DaemonSet or Deployment (default: DaemonSet where the provider can)")
	flags.StringVar(&a.options.Flags.CloudConfig.File, "cloud-config", "", "the provider's configuration file")
	flags.StringArrayVar(&a.credentials, "credential", nil,
		"KEY=FILE or KEY=env:NAME, one of the provider's credentials; may be repeated")
	flags.StringVar(&a.options.Flags.ControllerManager.Image, "image", "",
		"cloud-controller-manager image instead of the profile's")
	flags.StringVar(&a.options.Flags.Inventory, "inventory", "",
		"list of the site's machines, for a provider that serves those")
	flags.StringVar(&a.options.Flags.ClusterName, "cluster-name", "",
		"name given to the provider (default: derived from the cluster's CA)")
	flags.StringVar(&a.binary, "binary", "",
		"the cloud-controller-manager's program: it is rehearsed on this machine before anything is changed")
	flags.BoolVar(&a.rehearsed, "rehearse", false,
		"rehearse the provider in a pod before anything else is changed, as \"ccmadm rehearse\" does")
	a.bind(cmd, s, adoption.Adopt())
	return cmd
}

func newLeave(s workflow.Streams) *cobra.Command {
	a := newAdopter("leave", &adoption.Adoption{Leave: true})
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Take a cluster that was adopted out of external cloud mode",
		Long: `Goes the way of "ccmadm adopt" back, while pods run on: shows what would go, and what nobody would serve any
more, and asks; takes the permission to delete Nodes from the cloud-controller-manager; takes one kubelet after the
other out of external mode; and removes the cloud-controller-manager and all that was applied for it.

Load balancers of Services are refused, and pod routes too: they would stay behind, or the pods' network would go.
Provider IDs stay, since they cannot be changed: a provider that gives others takes only nodes that are made anew.`,
		Example: "  ccmadm leave --dry-run\n  ccmadm leave --via pods",
		Args:    noArgs,
	}
	cmd.Flags().BoolVar(&a.adoption.KeepLoadBalancers, "keep-load-balancers", false,
		"keep Services with load balancers, and the addresses in their status")
	cmd.Flags().DurationVar(&a.adoption.WaitLoadBalancers, "wait-load-balancers", 0,
		"how long to wait until load balancers are gone, whose Services somebody deletes (default: refuse at once)")
	cmd.Flags().BoolVar(&a.adoption.Purge, "purge", false,
		"also remove the journal, the manager's Lease, and whatever else is ccmadm's, on machines too")
	a.bind(cmd, s, adoption.Leave())
	return cmd
}

// bind declares what both have, and gives the command its phases.
func (a *adopter) bind(cmd *cobra.Command, s workflow.Streams, list []workflow.Phase) {
	o, adoption := &a.options, a.adoption
	o.CheckFiles, o.ReleaseBalancers = checkFiles, balancer.Release
	flags := cmd.Flags()
	flags.StringVarP(&o.ConfigFile, "filename", "f", "", "file with a CloudConfiguration")
	declareVia(flags, &a.via, &adoption.Remote)
	declareNodeTimeout(flags, adoption)
	declareSkip(flags, &adoption.Remote)
	flags.StringVarP(&o.Output, "output", "o", "text",
		"text, or json for one object per change of a node's state and per step; what is said goes to standard error")
	flags.BoolVar(&adoption.Yes, "yes", false, "do not ask")
	flags.BoolVar(&o.DryRun, "dry-run", false, "show the plan and each object, and change nothing")
	flags.BoolVar(&o.Force, "force", false, "take fields back that another manager of objects owns")
	flags.DurationVar(&o.Flags.Wait.Timeout.Duration, "timeout", 0,
		"how long to wait for the manager, and for each node (default 5m)")
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	workflow.Bind(cmd, list, names, func(sub *cobra.Command, _ []string, _ bool) (*workflow.Run, error) {
		return a.newRun(sub, s)
	})
	for _, phase := range cmd.Commands() {
		cmd.RemoveCommand(phase) // they are one way, which goes on where it stopped
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		outliveReader()
		if a.rehearsed && a.options.DryRun {
			return finding.Usagef("--rehearse makes a pod, and --dry-run makes nothing: rehearse with --binary")
		}
		if a.rehearsed || a.binary != "" {
			if err := a.rehearse(cmd, s); err != nil {
				return err
			}
		}
		return run(cmd, args)
	}
}

func (a *adopter) newRun(cmd *cobra.Command, s workflow.Streams) (*workflow.Run, error) {
	o := a.options
	a.adoption.Via = fleet.Via(a.via)
	o.Flags.Mode = config.Mode(a.mode)
	if err := checkOutput(o.Output); err != nil {
		return nil, err
	}
	err := checkParallel(&a.adoption.Remote)
	if err != nil {
		return nil, err
	}
	if o.Flags.Credentials, err = parseCredentials(a.credentials); err != nil {
		return nil, err
	}
	return workflow.New(cmd.Context(), machine.New(), o, s, version)
}

// rehearse runs the provider's program against the cluster beforehand, and lets it write nothing. A node that it does
// not know, or would delete, ends it.
func (a *adopter) rehearse(cmd *cobra.Command, s workflow.Streams) error {
	r, err := a.newRun(cmd, s)
	if err != nil {
		return err
	}
	command := newRehearse(s)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(rehearsalArgs(a.binary, a.adoption.Image, &r.Said))
	err = command.ExecuteContext(cmd.Context())
	if known := new(*finding.Error); errors.As(err, known) && (*known).Code == finding.ExitFound {
		return &finding.Error{Code: finding.ExitPreflight, Err: err, Hint: (*known).Hint} // for adopt it is a check
	}
	return err
}

// rehearsalArgs are the flags of a rehearsal with what was said, be it in the file or as flags. The cluster is that of
// this control plane, which is changed afterwards, whatever KUBECONFIG says. Without a binary it is one in a pod, which
// has images.
func rehearsalArgs(binary, nodeImage string, said *config.CloudConfiguration) []string {
	type flag struct{ name, value string }
	where := []flag{{"binary", binary}}
	if binary == "" {
		manager := &said.ControllerManager
		where = []flag{{"image", manager.Image}, {"image-tag", manager.Version}, {"node-image", nodeImage}}
	}
	var args []string
	for _, f := range append(where, []flag{
		{"kubeconfig", machine.AdminConf},
		{"provider", said.Provider},
		{"profile", said.Profile},
		{"cloud-config", said.CloudConfig.File},
		{"cluster-name", said.ClusterName},
	}...) {
		if f.value != "" && (f.name != "provider" || said.Profile == "") { // which names it, too
			args = append(args, "--"+f.name+"="+f.value)
		}
	}
	for _, c := range said.Credentials {
		from := c.File
		if c.Env != "" {
			from = "env:" + c.Env
		}
		args = append(args, "--credential="+c.Key+"="+from)
	}
	for _, arg := range said.ControllerManager.ExtraArgs {
		if rehearsal.CheckArgs([]string{arg}) == nil { // others a rehearsal sets itself
			args = append(args, "--arg="+arg)
		}
	}
	return args
}
