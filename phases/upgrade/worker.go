package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func workerPreflight() workflow.Phase {
	return workflow.Phase{
		Name:    "preflight",
		Journal: workflow.JournalNever,
		Short:   "Check that this worker can be upgraded",
		Long: `Reads the cluster's configuration with the kubelet's permissions, the version of kubeadm, and the files behind
the kubelet's arguments. Writes nothing.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			u := upgradeOf(r)
			if err := workflow.CheckRoot(ctx, r); err != nil {
				return err
			}
			there, err := r.Machine.Exists(machine.KubeletConf)
			if err != nil {
				return err
			}
			if !there {
				return finding.Refusedf("find the cluster of this machine: there is no %s", machine.KubeletConf).
					WithHint("this machine is no node: `ccmadm join` makes it one")
			}
			client, err := workflow.Connect(r.Env, machine.KubeletConf)
			if err != nil {
				return err
			}
			file, err := workflow.LiveKubeadm(ctx, client)
			if err != nil {
				return finding.Refusedf("ask for the version of the cluster: %w", err).
					WithHint("nothing was changed; run the same command again when the API server answers")
			}
			if u.target, err = planner.ParseTarget(file.KubernetesVersion()); err != nil {
				return err
			}
			marked, err := u.upgradedHere(r.Env)
			if err != nil {
				return err
			}
			u.kubeadm = !marked
			return workflow.RunChecks(ctx, r, []workflow.Check{
				{ID: finding.CheckKubeadmVersion, Run: checkKubeadmIs},
				{ID: finding.CheckWritable, Run: workflow.CheckWritable},
				{ID: finding.FlagGone, Run: checkKubeletRefuses},
				{ID: finding.PatchFile, Run: checkWorkersPatches},
			})
		},
	}
}

// checkKubeletRefuses finds arguments of this machine's kubelet that end the next one.
func checkKubeletRefuses(_ context.Context, r *workflow.Run) error {
	found, err := r.Machine.KubeletFlags(planner.KubeletFlags(upgradeOf(r).target)...)
	if err != nil {
		return err
	}
	target := upgradeOf(r).target
	var wrong []error
	for _, u := range found {
		if cleanedByUs(r.Machine, u) {
			continue
		}
		for _, one := range usesOf(planner.Use{Component: planner.Kubelet, Name: u.Flag, Value: u.Value}) {
			if planner.Refuses(target, one) {
				wrong = append(wrong, fmt.Errorf("%s: kubelet v%s refuses it; remove it there", u, target))
			}
		}
	}
	return errors.Join(wrong...)
}

// checkWorkersPatches finds what ends the next kubelet in the patches of its configuration, and files with which kubeadm ends: it reads
// all of them. A worker has no other component that they are for.
func checkWorkersPatches(_ context.Context, r *workflow.Run) error {
	found, err := upgradeOf(r).lintPatches(r.Machine, nil)
	if err != nil {
		return err
	}
	return kubeadm.RefusePatches(slices.DeleteFunc(found, func(f finding.Finding) bool {
		return f.ID != finding.PatchFile && f.File != "" && minors.Load().PatchTarget(filepath.Base(f.File)) != "kubeletconfiguration"
	}))
}

// showRest says what is left to be done on which machine: the plan, made anew.
func showRest() workflow.Phase {
	return workflow.Phase{
		Name:  "next",
		Short: "Show what is left to be done",
		Long:  "Reads what `ccmadm upgrade plan` reads. Writes nothing.",
		Plan: func(context.Context, *workflow.Run) (string, error) {
			return "ccmadm upgrade plan shows what is left to be done", nil
		},
		Run: func(ctx context.Context, r *workflow.Run) error {
			u := upgradeOf(r)
			if u.Driven {
				return nil
			}
			r.Sayf("this control plane is of v%s", u.target)
			plan, err := u.planAgain(ctx, r.Afresh())
			if err != nil { // all is done here
				r.Sayf("what is left elsewhere cannot be seen now: %v; ccmadm upgrade plan shows it", err)
				return ctx.Err()
			}
			return plan.WriteSteps(r.Progress())
		},
	}
}

func (u *Upgrade) planAgain(ctx context.Context, r *workflow.Run) (*planner.Plan, error) {
	facts, err := u.LiveFacts(ctx, r, "v"+u.target.String())
	if err != nil {
		return nil, err
	}
	return planner.New(*facts)
}

func showWorkersRest() workflow.Phase {
	return workflow.Phase{
		Name:  "next",
		Short: "Show what is left to be done",
		Plan: func(context.Context, *workflow.Run) (string, error) {
			return "the kubelet would be left to be upgraded", nil
		},
		Run: func(_ context.Context, r *workflow.Run) error {
			u := upgradeOf(r)
			if u.Driven {
				return nil
			}
			node := workflow.NodeOfKubelet(r.Machine)
			r.Sayf("this machine's configuration is that of v%s. To upgrade its kubelet, once all control planes are of that version, as "+
				"`ccmadm upgrade plan` on one shows:", u.target)
			for _, line := range []string{
				"kubectl drain " + node + " --ignore-daemonsets", "install kubelet and kubectl v" + u.target.String(),
				"systemctl daemon-reload && systemctl restart kubelet", "kubectl uncordon " + node,
			} {
				fmt.Fprintln(r.Progress(), "  "+line)
			}
			return nil
		},
	}
}
