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
		Run: func(ctx context.Context, r *workflow.Run) error {
			u := upgradeOf(r)
			if err := workflow.CheckRoot(ctx, r); err != nil {
				return err
			}
			if err := u.awaitCutShort(ctx, r.Env); err != nil {
				return err
			}
			facts, plan, err := u.planned(ctx, r)
			if err != nil {
				return err
			}
			if !u.first() { // one of another version is no beginning of this one
				r.Command = u.command()
			}
			resumed, err := upgradeCutShort(ctx, r)
			if err != nil {
				return err
			}
			if err := u.refuseBlocked(r.Env, plan, facts, resumed); err != nil {
				return err
			}
			if err := u.refuseByHand(r.Env, facts, resumed); err != nil {
				return err
			}
			if err := u.decide(ctx, r.Env, facts, plan, resumed); err != nil {
				return err
			}
			if err := workflow.RunChecks(ctx, r, upgradeChecks()); err != nil {
				return err
			}
			if image := imageToPull(u); image != "" && !r.DryRun {
				check := func(ctx context.Context, r *workflow.Run) error { return checkManagerImage(ctx, r.Host, image) }
				if err := workflow.RunChecks(ctx, r, []workflow.Check{{ID: finding.ManagerImage, Run: check}}); err != nil {
					return err
				}
			}
			return u.begin(ctx, r, resumed)
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
func (u *Upgrade) planned(ctx context.Context, r *workflow.Run) (*planner.Facts, *planner.Plan, error) {
	asked := u.Version
	if !u.first() {
		client, err := workflow.AdminClient(r.Env)
		if err != nil {
			return nil, nil, err
		}
		file, err := workflow.LiveKubeadm(ctx, client)
		if err != nil {
			return nil, nil, finding.Refusedf("ask for the version of the cluster: %w", err).WithHint("nothing was changed")
		}
		asked = file.KubernetesVersion()
	}
	facts, err := u.LiveFacts(ctx, r, asked)
	if err != nil {
		return nil, nil, err
	}
	if u.target, err = planner.ParseTarget(asked); err != nil {
		return nil, nil, err
	}
	if facts.Patches, err = u.lintPatches(r.Machine, facts.Uses); err != nil {
		return nil, nil, err
	}
	plan, err := planner.New(*facts)
	return facts, plan, err
}

// refuseBlocked goes by the plan's findings. What is wrong with the cluster in the middle of this very upgrade, here or
// on another machine, does not keep it from going on, and kubeadm makes its Job in the first half only.
func (u *Upgrade) refuseBlocked(env *workflow.Env, plan *planner.Plan, facts *planner.Facts, resumed bool) error {
	blocked := slices.DeleteFunc(plan.Blocked(), func(f finding.Finding) bool {
		trouble := slices.ContainsFunc(facts.Troubles, func(t finding.Finding) bool {
			return t.ID == f.ID && t.Object == f.Object && t.Message == f.Message
		})
		return (resumed || u.halfWay()) && trouble || f.ID == finding.NoNodeForJob && (resumed || !u.first())
	})
	env.Sayf("Kubernetes %s -> %s", plan.Now, plan.Then)
	if err := plan.WriteMachines(env.Progress()); err != nil {
		return err
	}
	if err := finding.WriteText(env.Progress(), plan.Findings); err != nil {
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
		WithHint("the plan above has the remedy of each finding; ccmadm explain ID has details. Nothing was changed")
}

// refuseByHand finds an upgrade that somebody has begun in another way, and one that is not the first any more.
func (u *Upgrade) refuseByHand(env *workflow.Env, facts *planner.Facts, resumed bool) error {
	if !u.first() {
		return u.refuseOtherHalf(env)
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
				"of v%s: an upgrade was begun by hand there", u.target, n.Name, v, cluster).
				WithHint("finish it there: kubeadm upgrade apply v%s. Nothing was changed", v)
		}
		if n.Name == facts.Here && v.LessThan(u.target) && !cluster.LessThan(u.target) {
			return finding.Preflightf("upgrade to v%s: the cluster's configuration is of v%s already, so this control plane "+
				"follows it", u.target, cluster).WithHint("run `ccmadm upgrade node` here. Nothing was changed")
		}
	}
	return nil
}

// refuseOtherHalf finds a first upgrade that has no end: kubeadm's other command does not do all that is left of it.
func (u *Upgrade) refuseOtherHalf(env *workflow.Env) error {
	command, err := cutShortHere(env, u.target)
	if err != nil || command == "" || command == "ccmadm upgrade node" {
		return err
	}
	own, err := ownAPIServer(env.Machine)
	if err != nil || own != nil && own.LessThan(u.target) { // another control plane has been the first since
		return err
	}
	return finding.Preflightf("follow the cluster's configuration: `%s` was started on this machine and is not finished", command).
		WithHint("run `%s` again: it resumes. Nothing was changed", command)
}

// checkKubeadmIs wants the installed kubeadm to be of the very version.
func checkKubeadmIs(ctx context.Context, r *workflow.Run) error {
	u := upgradeOf(r)
	v, err := r.KubeadmVersion(ctx)
	if err != nil {
		return err
	}
	if v.EqualTo(u.target) {
		return kubeadm.CheckVersion(v)
	}
	hint := fmt.Sprintf("install kubeadm v%s first", u.target)
	if !u.first() && u.target.LessThan(v) {
		hint = fmt.Sprintf("`ccmadm upgrade apply v%s` on one control plane comes first", v)
	}
	return finding.Preflightf("the installed kubeadm is of v%s, not v%s", v, u.target).WithHint("%s", hint)
}

// tryUpgrade runs the phases that write as a dry run that nobody sees, and keeps what each would change.
func tryUpgrade(ctx context.Context, r *workflow.Run) error {
	if r.DryRun {
		return nil
	}
	shared := slices.DeleteFunc(ControlPlane(), func(p workflow.Phase) bool { return !p.Shared })
	trial, err := workflow.PreviewPhases(ctx, r, shared)
	if err != nil {
		return err
	}
	return trial.Refusal()
}
