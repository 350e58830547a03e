package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/providers"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/rehearse"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/adoption"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/settings"
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
	verbose     bool
}

func newAdopter(command string, adoption *adoption.Adoption) adopter {
	return adopter{adoption: adoption, options: workflow.Inputs{
		Role: kubeadm.RoleInit, Existing: true, Command: command, Operation: adoption,
	}}
}

func newAdopt(s workflow.Streams) *cobra.Command {
	a := newAdopter(journal.CommandAdopt, &adoption.Adoption{})
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Take an existing cluster into external cloud mode, node by node",
		Long: `Takes an existing kubeadm cluster without a cloud provider into external cloud mode, while its pods keep
running. It runs on a control plane, shows a plan and asks. Then it:

1. starts the cloud-controller-manager, which may not delete Nodes yet
2. sets one kubelet after the other to external mode, with the address of its Node, and has each Node initialized
3. allows the deletion of Nodes whose machine is gone, once the provider knows every node
4. writes the cluster's record

The step on each other machine is "ccmadm node external". --via hand lists the machines where you run it, --via pods runs it
in a privileged pod that exists only during the step, and --via ssh runs it with the OpenSSH client. The command stops at the
first node that fails; the same command resumes there. "ccmadm leave" reverts everything.` + usage.ExitStatuses(usage.Endings{
			finding.ExitPreflight: "the rehearsal found that a Node would be lost; nothing was changed",
			finding.ExitNotInTime: "a Node was not ready in time; the same command resumes",
			finding.ExitRefused:   "nothing was changed",
		}),
		Example: `  ccmadm adopt --provider onprem --dry-run
  ccmadm adopt --provider onprem --via pods
  ccmadm adopt --provider aws -f cloud.yaml --rehearse`,
		Args: usage.NoArgs,
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
		"rehearse the provider in a pod before anything else is changed, as \"ccmadm rehearse\" does, with this run's cluster name and images")
	a.bind(cmd, s, adoption.Adopt())
	return cmd
}

func newLeave(s workflow.Streams) *cobra.Command {
	a := newAdopter(journal.CommandLeave, &adoption.Adoption{Leave: true})
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Take an adopted cluster out of external cloud mode",
		Long: `Reverts "ccmadm adopt", while pods keep running: shows a plan, with what would no longer be served, and asks;
revokes the cloud-controller-manager's permission to delete Nodes; takes one kubelet after the other out of external mode;
and removes the cloud-controller-manager with all objects that were applied for it.

Clusters with load balancers of Services or with pod routes are refused: load balancers would be orphaned, and the pods'
network would go. Provider IDs stay, because they cannot be changed: another provider accepts only nodes that are recreated.`,
		Example: "  ccmadm leave --dry-run\n  ccmadm leave --via pods",
		Args:    usage.NoArgs,
	}
	cmd.Flags().BoolVar(&a.adoption.KeepLoadBalancers, "keep-load-balancers", false,
		"keep Services with load balancers, and the addresses in their status")
	cmd.Flags().DurationVar(&a.adoption.WaitLoadBalancers, "wait-load-balancers", 0,
		"how long to wait until the Services with load balancers are deleted (default: refuse at once)")
	cmd.Flags().BoolVar(&a.adoption.Purge, "purge", false,
		"also remove the journal, the cloud-controller-manager's Lease, and everything else of ccmadm, on machines too")
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
	declareVerbose(flags, &a.verbose)
	declareNodeTimeout(flags, adoption)
	declareSkip(flags, &adoption.Remote)
	output.Var(cmd, &o.Output, "text, or json or yaml for one object per change of a node's state and per step; messages go to standard error",
		output.Text, output.JSON, output.YAML)
	flags.BoolVar(&adoption.Yes, "yes", false, "do not ask")
	flags.BoolVar(&o.DryRun, "dry-run", false, "show the plan and each object, and change nothing")
	flags.BoolVar(&o.Force, "force", false, "take over fields that another field manager owns")
	flags.DurationVar(&o.Flags.Wait.Timeout.Duration, "timeout", 0,
		"how long to wait for the cloud-controller-manager, and for each node (default 5m)")
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
			return finding.Usagef("--rehearse creates a pod, and --dry-run creates nothing: rehearse with --binary")
		}
		if a.rehearsed || a.binary != "" {
			if err := a.rehearse(cmd, s); err != nil {
				return err
			}
		}
		if ended, err := a.endLeft(cmd, s); ended || err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// endLeft ends a run of leave that was interrupted after it had removed the cluster's record. It tells whether there was one.
func (a *adopter) endLeft(cmd *cobra.Command, s workflow.Streams) (bool, error) {
	if !a.adoption.Leave || a.adoption.Purge {
		return false, nil
	}
	client, err := workflow.ControlPlaneClient(machine.New(), version)
	if err != nil {
		return false, nil //nolint:nilerr // preflight says why
	}
	list, err := adoption.Ending(cmd.Context(), client)
	if err != nil || list == nil {
		return false, usage.Observed(err)
	}
	r, err := a.newRun(cmd, s)
	if err != nil {
		return false, err
	}
	return true, r.Do(cmd.Context(), list)
}

func (a *adopter) newRun(cmd *cobra.Command, s workflow.Streams) (*workflow.Run, error) {
	o := a.options
	a.adoption.Via = fleet.Via(a.via)
	o.Flags.Mode, o.Quiet, o.Line = config.Mode(a.mode), !a.verbose, commandLine(cmd, nil)
	if err := output.Check(o.Output, output.Text, output.JSON, output.YAML); err != nil {
		return nil, err
	}
	err := checkParallel(&a.adoption.Remote)
	if err != nil {
		return nil, err
	}
	if o.Flags.Credentials, err = providers.Credentials(a.credentials); err != nil {
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
	resolved, err := r.Settings(cmd.Context())
	if err != nil {
		return usage.Observed(err)
	}
	args, err := a.rehearsalArgs(r.Host, resolved, r.Said)
	if err != nil {
		return usage.Observed(err)
	}
	command := rehearse.NewCommand(a.rehearsalStreams(s), version, ownImage+version)
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(args)
	err = command.ExecuteContext(cmd.Context())
	if known := new(*finding.Error); errors.As(err, known) && (*known).Code == finding.ExitFound {
		return &finding.Error{Code: finding.ExitPreflight, Err: err, Hint: (*known).Hint} // for adopt it is a check
	}
	return err
}

// rehearsalStreams keep the rehearsal's table apart from what programs read.
func (a *adopter) rehearsalStreams(s workflow.Streams) workflow.Streams {
	if a.options.Output != output.Text {
		s.Out = s.Err
	}
	return s
}

// rehearsalArgs are the flags of a rehearsal with what was said, be it in the file or as flags, and with the name of the cluster and the
// mirror that adopt takes. The cluster is that of this control plane, which is changed afterwards, whatever KUBECONFIG says. Without a
// binary it is one in a pod, which has images.
func (a *adopter) rehearsalArgs(h *workflow.Host, s *settings.Settings, said config.CloudConfiguration) ([]string, error) {
	name, err := record.ClusterName(h, s)
	if err != nil {
		return nil, err
	}
	type flag struct{ name, value string }
	where := []flag{{"binary", a.binary}}
	if a.binary == "" {
		manager := &said.ControllerManager
		where = []flag{
			{"image", manager.Image},
			{"image-tag", manager.Version},
			{"image-repository", s.ImageRepository},
			{"node-image", a.adoption.Image},
		}
	}
	var args []string
	for _, f := range append(where, []flag{
		{"kubeconfig", machine.AdminConf},
		{"provider", said.Provider},
		{"profile", said.Profile},
		{"cloud-config", said.CloudConfig.File},
		{"cluster-name", name},
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
	return args, nil
}
