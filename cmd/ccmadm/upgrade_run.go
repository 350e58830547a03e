package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/upgrade"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// upgradeRun is what the flags of `upgrade apply` and `upgrade node` say.
type upgradeRun struct {
	options    workflow.Inputs
	upgrade    upgrade.Upgrade
	via        string
	root       string
	configData string
	verbose    bool
}

func newUpgradeApply(s workflow.Streams) *cobra.Command {
	var u upgradeRun
	cmd := &cobra.Command{
		Use:   "apply VERSION [flags] [-- kubeadm upgrade apply flags]",
		Short: "Upgrade the first control plane and the cloud-controller-manager",
		Long: `Upgrades the cluster's configuration and this control plane, the first one, with the installed kubeadm, which must have
version VERSION. It:

1. runs the checks of "ccmadm upgrade plan", and pulls the cloud-controller-manager's image for the version
2. removes from the live configuration what components of the version refuse
3. runs "kubeadm upgrade apply VERSION --yes"
4. restores the kubelet's flags of external mode if they were lost
5. renews the certificate of the cloud-controller-manager, and changes it to its new release
6. writes the version to the cluster's record, and checks that a Service responds

A static pod that uses this machine's API server is upgraded with it. In the modes DaemonSet and Deployment the
cloud-controller-manager stays as it is until every API server is new enough: the last "ccmadm upgrade node" of a control
plane upgrades it. You install the packages.

With --via pods or ssh it continues on the other machines: "ccmadm upgrade node" on each other control plane, one after the
other, and then on the workers. First it checks the kubeadm of each machine: if VERSION is missing there, it does not start,
and shows the command that installs it. It stops at the first machine that fails. --config FILE is passed on, and so are the
flags after -- that "kubeadm upgrade node" has, too.

Each step is in the journal. After an interruption the same command resumes. ` + "`ccmadm rollback`" + ` reverts the
cloud-controller-manager to its former release; Kubernetes cannot be downgraded.` + upgradeEndings(),
		Example: `  ccmadm upgrade apply v1.36.3
  ccmadm upgrade apply v1.36.3 --via pods              # the other machines, too
  ccmadm upgrade apply v1.36.3 -- --etcd-upgrade=false
  ccmadm upgrade apply v1.36.3 --config upgrade.yaml   # kubeadm's UpgradeConfiguration`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before := beforeDash(cmd, args)
			if len(before) != 1 {
				return finding.Usagef("upgrade apply takes one version, not %q", before)
			}
			v, err := planner.ParseTarget(before[0])
			if err != nil {
				return err
			}
			u.upgrade.Version = "v" + v.String()
			u.upgrade.Via, u.upgrade.Again = fleet.Via(u.via), again(cmd.Flags())
			if err := checkParallel(&u.upgrade.Remote); err != nil {
				return err
			}
			u.options.Line = commandLine(cmd, args)
			return u.run(cmd.Context(), s, journal.CommandUpgradeApply+" "+u.upgrade.Version, args[1:])
		},
	}
	u.bind(cmd)
	declareVia(cmd.Flags(), &u.via, &u.upgrade.Remote)
	declareSkip(cmd.Flags(), &u.upgrade.Remote)
	return cmd
}

func upgradeEndings() string {
	return usage.ExitStatuses(usage.Endings{
		finding.ExitPreflight: "something has to be removed or repaired first; nothing was changed",
		finding.ExitNotInTime: "all was done, and the cloud-controller-manager or a Service does not answer in time",
		finding.ExitRefused:   "nothing was changed",
	})
}

func newUpgradeNode(s workflow.Streams) *cobra.Command {
	var u upgradeRun
	cmd := &cobra.Command{
		Use:   "node [flags] [-- kubeadm upgrade node flags]",
		Short: "Upgrade this machine to the version of the cluster's configuration",
		Long: `Upgrades another control plane, or a worker, after "ccmadm upgrade apply" on the first control plane, with the installed
kubeadm, which must have the version of the cluster's configuration: runs "kubeadm upgrade node", and restores the kubelet's
flags of external mode if they were lost.

On a control plane it then renews the certificate of the cloud-controller-manager's static pod and changes the pod to its new
release; in the modes DaemonSet and Deployment the last control plane upgrades the cloud-controller-manager. Each step is in
the journal, and the run holds the Lease, as with "ccmadm upgrade apply". A worker has permission for neither.

After an interruption the same command resumes.` + upgradeEndings(),
		Example: `  ccmadm upgrade node
  ccmadm upgrade node -- --etcd-upgrade=false`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if before := beforeDash(cmd, args); len(before) > 0 {
				return finding.Usagef("upgrade node takes no argument, not %q: it goes by the cluster's configuration", before)
			}
			u.options.Line = commandLine(cmd, args)
			return u.run(cmd.Context(), s, journal.CommandUpgradeNode, args)
		},
	}
	u.bind(cmd)
	u.bindDriven(cmd)
	return cmd
}

func (u *upgradeRun) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&u.upgrade.Image, "image", "",
		"the cloud-controller-manager's image for the version, instead of the profile's")
	flags.StringVar(&u.upgrade.Config, "config", "", "file with kubeadm's UpgradeConfiguration, for kubeadm")
	flags.BoolVar(&u.options.DryRun, "dry-run", false, "show what would be done, and change nothing")
	flags.BoolVar(&u.options.Force, "force", false, "as with ccmadm apply")
	declareVerbose(flags, &u.verbose)
	declareTimeout(cmd, &u.options)
}

// bindDriven declares what a run on another machine adds: it sends kubeadm's configuration along, and says itself what
// is left.
func (u *upgradeRun) bindDriven(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&u.root, "root", "/",
		"where the machine's root is mounted: in a pod with hostPID and hostNetwork, /host say")
	declareWhose(flags, &u.upgrade.Whose)
	flags.BoolVar(&u.upgrade.Driven, "driven", false, "")
	flags.StringVar(&u.configData, "config-data", "", "")
	for _, name := range []string{"driven", "config-data"} {
		_ = flags.MarkHidden(name) // it is declared above
	}
}

// readConfig reads kubeadm's configuration, or takes what another machine has sent.
func (u *upgradeRun) readConfig() error {
	var err error
	switch {
	case u.upgrade.Config != "":
		var data []byte
		if data, err = os.ReadFile(u.upgrade.Config); err != nil {
			return finding.Usagef("read kubeadm's configuration: %w", err)
		}
		u.upgrade.ConfigText = string(data)
	case u.configData != "":
		u.upgrade.Config = machine.UpgradeConfig
		u.upgrade.ConfigText, err = upgrade.DecodeConfig(u.configData)
	}
	return err
}

func (u *upgradeRun) run(ctx context.Context, s workflow.Streams, command string, rest []string) error {
	for _, arg := range rest {
		if name, _, _ := strings.Cut(arg, "="); name == "--dry-run" || name == "--config" {
			return finding.Usagef("pass %s to kubeadm only: ccmadm needs it, too", name).WithHint("put it before the --")
		}
	}
	if err := u.readConfig(); err != nil {
		return err
	}
	u.upgrade.Rest = rest
	if err := u.upgrade.Check(); err != nil {
		return err
	}
	m := machine.Host(cmp.Or(u.root, "/"))
	if !u.options.DryRun { // its reader may be behind an SSH connection that is lost, and so may kubeadm's
		outliveReader()
		s.Out, s.Err = unheard{s.Out}, unheard{s.Err}
	}
	if u.upgrade.Version == "" {
		node := kubelet.NewNode(m, kubelet.NodeOptions{DryRun: u.options.DryRun}, s, version)
		release, err := fleet.HoldForUpgrade(ctx, node, u.upgrade.Whose)
		if err != nil {
			return usage.Observed(err)
		}
		defer release()
	}
	controlPlane, err := workflow.ControlPlaneHere(m)
	if err != nil {
		return usage.Observed(err)
	}
	controlPlane = controlPlane || u.upgrade.Version != ""
	o, list := u.options, upgrade.Worker()
	o.Role, o.Operation, o.Command, o.Output, o.CheckFiles = kubeadm.RoleJoin, &u.upgrade, command, "text", checkFiles
	o.AllChecksHold, o.Quiet = true, !u.verbose
	if controlPlane {
		o.Role, o.Existing, list = kubeadm.RoleInit, true, upgrade.ControlPlane()
	}
	r, err := workflow.New(ctx, m, o, s, version)
	if err != nil {
		return err
	}
	return r.Do(ctx, list)
}

// unheard takes what is written for written, whether or not anybody reads it: kubeadm, whose output goes through it, does
// not end with its reader.
type unheard struct{ io.Writer }

func (u unheard) Write(data []byte) (int, error) {
	_, _ = u.Writer.Write(data)
	return len(data), nil
}
