package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func upgradePreflight() workflow.Phase {
	return workflow.Phase{
		Name:    "preflight",
		Journal: workflow.JournalNever,
		Short:   "Check that this control plane can be upgraded, and that the manager's image for the version is there",
		Long: `Reads what ` + "`ccmadm upgrade plan`" + ` reads, the journal, and the file systems. Where the manager's image
changes, a pod on this Node has it pulled, and is deleted.`,
		Run: func(ctx context.Context, d *workflow.Data) error {
			if err := workflow.CheckRoot(ctx, d); err != nil {
				return err
			}
			if err := awaitCutShort(ctx, d); err != nil {
				return err
			}
			facts, plan, err := planned(ctx, d)
			if err != nil {
				return err
			}
			if !upgradeOf(d).first() { // one of another version is no beginning of this one
				d.Command = upgradeOf(d).command()
			}
			resumed, err := upgradeCutShort(ctx, d)
			if err != nil {
				return err
			}
			if err := refuseBlocked(d, plan, facts, resumed); err != nil {
				return err
			}
			if err := refuseByHand(d, facts, resumed); err != nil {
				return err
			}
			if err := decide(ctx, d, facts, plan, resumed); err != nil {
				return err
			}
			if err := workflow.RunChecks(ctx, d, upgradeChecks()); err != nil {
				return err
			}
			if image := imageToPull(upgradeOf(d)); image != "" && !d.DryRun {
				check := func(ctx context.Context, d *workflow.Data) error { return checkManagerImage(ctx, d, image) }
				if err := workflow.RunChecks(ctx, d, []workflow.Check{{ID: finding.ManagerImage, Run: check}}); err != nil {
					return err
				}
			}
			return beginUpgrade(ctx, d, resumed)
		},
	}
}

// imageToPull is that which this run brings, or leaves to the last control plane: then it is known early that it is
// there.
func imageToPull(u *Upgrade) string {
	switch {
	case u.manager != "" && u.moves:
		return u.manager
	case u.Image != "":
		return u.next
	}
	return ""
}

func upgradeChecks() []workflow.Check {
	return []workflow.Check{
		{ID: finding.CheckKubeadmVersion, Run: checkKubeadmIs},
		{ID: finding.CheckWritable, Run: workflow.CheckWritable},
		{ID: finding.CheckWritable, Run: checkRoom},
		{ID: finding.CheckProvider, Run: record.CheckProvider},
		{ID: finding.CheckExternalCA, Run: manager.CheckExternalCA},
		{ID: finding.CheckCloudConfig, Run: manager.CheckCloudConfig},
		{ID: finding.CheckStaticPod, Run: manager.CheckManifestUntouched},
		{ID: finding.CheckManifests, Run: tryUpgrade},
	}
}

// planned is the plan for the version that is asked for, or for that of the cluster's configuration.
func planned(ctx context.Context, d *workflow.Data) (*planner.Facts, *planner.Plan, error) {
	asked := upgradeOf(d).Version
	if !upgradeOf(d).first() {
		client, err := workflow.AdminClient(d)
		if err != nil {
			return nil, nil, err
		}
		file, err := workflow.LiveKubeadm(ctx, client)
		if err != nil {
			return nil, nil, finding.Refusedf("ask for the version of the cluster: %w", err).WithHint("nothing was changed")
		}
		asked = file.KubernetesVersion()
	}
	facts, err := LiveFacts(ctx, d, asked, upgradeOf(d).Image)
	if err != nil {
		return nil, nil, err
	}
	if upgradeOf(d).target, err = planner.ParseTarget(asked); err != nil {
		return nil, nil, err
	}
	plan, err := planner.New(*facts)
	return facts, plan, err
}

// refuseBlocked goes by the plan's findings. What is wrong with the cluster in the middle of this very upgrade, here or
// on another machine, does not keep it from going on, and kubeadm makes its Job in the first half only.
func refuseBlocked(d *workflow.Data, plan *planner.Plan, facts *planner.Facts, resumed bool) error {
	blocked := slices.DeleteFunc(plan.Blocked(), func(f finding.Finding) bool {
		trouble := slices.ContainsFunc(facts.Troubles, func(t finding.Finding) bool {
			return t.ID == f.ID && t.Object == f.Object && t.Message == f.Message
		})
		return (resumed || upgradeOf(d).halfWay()) && trouble || f.ID == finding.NoNodeForJob && (resumed || !upgradeOf(d).first())
	})
	d.Sayf("Kubernetes %s -> %s", plan.Now, plan.Then)
	if err := plan.WriteMachines(d.Progress()); err != nil {
		return err
	}
	if err := finding.WriteText(d.Progress(), plan.Findings); err != nil {
		return err
	}
	if len(blocked) == 0 {
		return nil
	}
	var wrong []error
	for _, f := range blocked {
		where := string(f.ID)
		if f.ID == finding.MachineLacks { // whose message is of that machine
			where += " " + f.Object
		}
		wrong = append(wrong, fmt.Errorf("%s: %s", where, finding.Clean(f.Message)))
	}
	return finding.Preflightf("upgrade to %s: %w", plan.Then, errors.Join(wrong...)).
		WithHint("what to do is said above; ccmadm lint --explain ID says more. Nothing was changed")
}

// refuseByHand finds an upgrade that somebody has begun in another way, and one that is not the first any more.
func refuseByHand(d *workflow.Data, facts *planner.Facts, resumed bool) error {
	if !upgradeOf(d).first() {
		return refuseOtherHalf(d)
	}
	cluster, err := version.ParseSemantic(facts.Cluster)
	if err != nil {
		return err
	}
	for _, n := range facts.Nodes {
		v, err := version.ParseSemantic(n.APIServer)
		if err != nil {
			continue
		}
		if cluster.LessThan(v) && !resumed {
			return finding.Preflightf("upgrade to v%s: the API server of Node/%s is of v%s, and the cluster's configuration "+
				"of v%s: an upgrade was begun by hand there", upgradeOf(d).target, n.Name, v, cluster).
				WithHint("finish it there: kubeadm upgrade apply v%s. Nothing was changed", v)
		}
		if n.Name == facts.Here && v.LessThan(upgradeOf(d).target) && !cluster.LessThan(upgradeOf(d).target) {
			return finding.Preflightf("upgrade to v%s: the cluster's configuration is of v%s already, so this control plane "+
				"follows it", upgradeOf(d).target, cluster).WithHint("ccmadm upgrade node. Nothing was changed")
		}
	}
	return nil
}

// refuseOtherHalf finds a first upgrade that has no end: kubeadm's other command does not do all that is left of it.
func refuseOtherHalf(d *workflow.Data) error {
	command, err := cutShortHere(d, upgradeOf(d).target)
	if err != nil || command == "" || command == "ccmadm upgrade node" {
		return err
	}
	own, err := ownAPIServer(d.Machine)
	if err != nil || own != nil && own.LessThan(upgradeOf(d).target) { // another control plane has been the first since
		return err
	}
	return finding.Preflightf("follow the cluster's configuration: %s was begun on this machine, and has not come to its "+
		"end", command).WithHint("%s. Nothing was changed", command)
}

// checkKubeadmIs wants the installed kubeadm to be of the very version.
func checkKubeadmIs(ctx context.Context, d *workflow.Data) error {
	v, err := d.KubeadmVersion(ctx)
	if err != nil {
		return err
	}
	if err := kubeadm.CheckVersion(v); err != nil {
		return err
	}
	if v.EqualTo(upgradeOf(d).target) {
		return nil
	}
	hint := fmt.Sprintf("install kubeadm v%s first", upgradeOf(d).target)
	if !upgradeOf(d).first() && upgradeOf(d).target.LessThan(v) {
		hint = fmt.Sprintf("`ccmadm upgrade apply v%s` on one control plane comes first", v)
	}
	return finding.Preflightf("the installed kubeadm is of v%s, not v%s", v, upgradeOf(d).target).WithHint("%s", hint)
}

// tryUpgrade runs the phases that write as a dry run that nobody sees, and keeps what each would change.
func tryUpgrade(ctx context.Context, d *workflow.Data) error {
	if d.DryRun {
		return nil
	}
	shared := slices.DeleteFunc(ControlPlane(), func(p workflow.Phase) bool { return !p.Shared })
	trial, err := workflow.TryPhases(ctx, d, shared)
	if err != nil {
		return err
	}
	return trial.Refusal()
}
