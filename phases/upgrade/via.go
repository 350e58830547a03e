package upgrade

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// other is a machine that is upgraded from this one.
type other struct {
	*fleet.Node

	report   *kubelet.NodeReport // nil: it was not asked, or has not answered
	failed   error               // why it has not
	cutShort bool                // its last step in the journal, or its own last run, has not come to its end
	finish   string              // the command that leads a control plane on whose turn has come, on that machine; empty: none
	lacks    string              // the directory with patches without which it cannot be upgraded
	without  bool                // it has no patches, and is upgraded without
}

// told is what a plan is made of.
func (o *other) told(target *version.Version) planner.Told {
	t := planner.Told{Skipped: o.Skipped}
	var known *finding.Error
	if o.report == nil && o.finish != "" {
		t.Next, t.Do = "on "+o.Name+": "+o.finish, "finish its upgrade there: until then control planes are of two versions"
	}
	switch {
	case o.failed != nil:
		t.Problem = finding.Clean(o.failed.Error())
		if errors.As(o.failed, &known) && known.Hint != "" {
			t.Next, t.Do = known.Hint, ""
		}
	case !o.Ready && o.report == nil:
		t.Problem, t.Next = "it is not Ready", cmp.Or(t.Next, "ccmadm status")
	case o.report != nil:
		r := o.report
		t.Asked, t.Kubeadm, t.Kubelet = true, finding.Clean(r.Kubeadm), finding.Clean(r.Version)
		t.Ccmadm, t.Packages, t.Upgraded = finding.Clean(r.Ccmadm), r.Packages, r.Upgraded
		t.Release = finding.Clean(r.Release)
		first, next := commandsTo(target)
		t.Unfinished = o.cutShort || r.Upgrading == next
		switch {
		case len(r.Astray) > 0:
			t.Problem = "absolute links there lead elsewhere in a pod: " + strings.Join(r.Astray, ", ")
			t.Next = "upgrade it over SSH, with --via ssh, or there: ccmadm upgrade node"
		case o.ControlPlane && r.Worker:
			t.Problem = "its Node has the label of a control plane, and there is no " + machine.APIServerPod
			t.Next = "put it back there, or: kubectl label node " + o.Name + " " + v1alpha1.ControlPlaneLabel + "-"
		case r.NoUpgrade != "":
			t.Problem, t.Next = finding.Clean(r.NoUpgrade), "put the file back there"
		case o.lacks != "":
			t.Problem = "there is no " + o.lacks + ", where kubeadm is to look for patches"
			t.Next = "copy it there, or leave it empty"
		case r.Upgrading == first:
			t.Problem = first + " was started there and is not finished"
			t.Next = "there: ccmadm " + first
		}
	}
	return t
}

// commandsTo are those that upgrade the first control plane, and any other machine, to a version.
func commandsTo(target *version.Version) (first, next string) {
	return (&Upgrade{target: target, Version: "v" + target.String()}).command(), (&Upgrade{target: target}).command()
}

// askOthers asks the machines that are upgraded from here, once in a run, before anything is changed.
func (u *Upgrade) askOthers(ctx context.Context, env *workflow.Env, client kubernetes.Interface, f *planner.Facts,
	target *version.Version,
) error {
	if u.ByHand() {
		return nil
	}
	if u.others == nil {
		others, err := u.otherMachines(ctx, env, client, f.Here)
		if err != nil {
			return err
		}
		u.others = others
	}
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return err
	}
	last := fleet.LastStates(runs, otherStep)
	f.Via, f.Told = string(u.Via), map[string]planner.Told{}
	for _, arg := range u.Again {
		f.Again = append(f.Again, machine.ShellQuote(arg))
	}
	for _, o := range u.others {
		state, known := last[o.Name]
		o.cutShort = known && state != journal.Done
		if o.ControlPlane {
			o.askJournal(runs, target, !planner.Older(f.Cluster, target))
		}
		f.Told[o.Name] = o.told(target)
	}
	return nil
}

// askJournal looks for an upgrade to the version that a control plane has begun by itself, and has not ended. The turn
// of all has come where the cluster is of that version.
func (o *other) askJournal(runs []journal.Run, target *version.Version, turn bool) {
	first, next := commandsTo(target)
	last := lastUpgrade(runs, o.Name)
	begun := last.Command == first || last.Command == next
	o.cutShort, o.finish = begun && last.State != journal.Done, ""
	switch {
	case o.cutShort && last.Command == first:
		o.finish = "ccmadm " + last.Command
	case o.cutShort || turn:
		o.finish = "ccmadm upgrade node"
	}
}

// halfWay tells whether the upgrade that goes on from here stands at another control plane.
func (u *Upgrade) halfWay() bool {
	return slices.ContainsFunc(u.others, func(o *other) bool { return o.ControlPlane && o.cutShort && !o.Skipped })
}

// otherMachines are all but this one, control planes first. A dry run makes no pods, so that it asks over SSH only.
func (u *Upgrade) otherMachines(ctx context.Context, env *workflow.Env, client kubernetes.Interface, here string) ([]*other, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	r := u.Remote
	var plan []*fleet.Node
	for i := range list.Items {
		n := fleet.NewNode(&list.Items[i], here, r.Skip)
		if plan = append(plan, n); n.Here && n.Skipped {
			return nil, finding.Usagef("read --skip: Node/%s is this machine, which upgrades the others", here).
				WithHint("nothing was changed")
		}
	}
	if err := r.Check(plan); err != nil {
		return nil, err
	}
	fleet.ControlPlanesFirst(plan)
	asked, err := u.patches("node")
	if err != nil {
		return nil, err
	}
	reports, failed := make([]*kubelet.NodeReport, len(plan)), make([]error, len(plan))
	if !env.DryRun || r.Via == fleet.ViaSSH {
		reports, failed = fleet.ShowEach(ctx, r.Via, u.way(env, client), plan, asked.flags()...)
	}
	var others []*other
	for i, n := range plan {
		if n.Here {
			continue
		}
		o := &other{Node: n, report: reports[i], failed: failed[i]}
		o.lacks, o.without = asked.lackedBy(o)
		others = append(others, o)
	}
	return others, nil
}

// upgradeNodeArgs is the command on another machine: what this run was told and that one is to know, too.
func (u *Upgrade) upgradeNodeArgs(r *workflow.Run, o *other) ([]string, error) {
	n, args := o.Node, []string{"upgrade", "node", "--driven"}
	if u.Via == fleet.ViaSSH {
		wanted, err := fleet.ExpectedMachine(r.Env, n)
		if err != nil {
			return nil, err
		}
		args = append(args, wanted.Flags()...)
	}
	if u.ConfigText != "" {
		args = append(args, fleet.ConfigData+encodeConfig(u.ConfigText))
	}
	if n.ControlPlane {
		if u.Image != "" {
			args = append(args, "--image="+u.Image)
		}
		if r.Force {
			args = append(args, "--force")
		}
		if given := r.Flags.Wait.Timeout.Duration; given > 0 {
			args = append(args, "--timeout="+given.String())
		}
	}
	if rest := restOfOthers(u.Rest, o.without); len(rest) > 0 {
		args = append(append(args, "--"), rest...)
	}
	return args, nil
}

// carried lays kubeadm's configuration that another machine has sent where the kubeadm of this one reads it.
func (u *Upgrade) carried(env *workflow.Env) (remove func() error, err error) {
	if !u.Driven || u.ConfigText == "" {
		return func() error { return nil }, nil
	}
	f := machine.File{Path: u.Config, Data: []byte(u.ConfigText), Mode: 0o600}
	if _, err := env.Machine.Files.Write(f); err != nil {
		return nil, err
	}
	return func() error {
		_, err := env.Machine.Files.Remove(f.Path)
		return err
	}, nil
}

func encodeConfig(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// DecodeConfig reads what stands behind --config-data.
func DecodeConfig(data string) (string, error) {
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return "", finding.Usagef("read --config-data: %w", err)
	}
	return string(text), nil
}

// way is how the others are reached.
func (u *Upgrade) way(env *workflow.Env, client kubernetes.Interface) fleet.Inspector {
	if r := u.Remote; r.Via == fleet.ViaPods {
		pods := &fleet.Pods{Env: env, Client: client, Image: r.Image, Prefix: fleet.UpgradePrefix, LogTimeout: r.LogTimeout}
		pods.Begins, pods.Takes, pods.Grace = fleet.UpgradeBegins, fleet.UpgradeTakes, fleet.UpgradeGrace
		return fleet.OneAtATime{Inspector: pods, Client: client, Answer: fleet.UpgradeAnswer}
	}
	return fleet.OneAtATime{Inspector: fleet.SSH{Env: env, User: u.SSHUser, Takes: fleet.UpgradeTakes}, Client: client, Answer: fleet.UpgradeAnswer}
}
