package adoption

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Leave lists the phases of `ccmadm leave` in their order: the way of adopt back.
func Leave() []workflow.Phase {
	return []workflow.Phase{
		leavePreflight(),
		off(manager.RBAC()), // nobody may delete a Node from here on
		off(manager.Addon()),
		triedRollout(),
		leaveNodes(),
		forgetMachine(), // before the record goes: until then the same command goes on
		removeObjects(),
		purge(),
	}
}

// off runs a phase as if the lifecycle were off. A manager that is gone, by a run that was cut short or as it never
// came, deletes nothing and is not brought back, nor are its permissions.
func off(p workflow.Phase) workflow.Phase {
	run := p.Run
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		s, err := r.Settings(ctx)
		if err != nil {
			return err
		}
		there, err := manager.ScheduledManager(ctx, r.Env, s)
		if err == nil && !there && p.Name == manager.RBAC().Name {
			there, err = mayDelete(ctx, r.Env, s)
		}
		if err != nil {
			return err
		}
		if !there {
			r.Sayf("there is no cloud-controller-manager any more")
			return nil
		}
		return holdLifecycle(s, true, func() error { return run(ctx, r) })
	}
	return p
}

// mayDelete tells whether the manager's permissions are there, with or without it.
func mayDelete(ctx context.Context, env *workflow.Env, s *settings.Settings) (bool, error) {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return false, err
	}
	name := v1alpha1.Prefix + s.Profile.Name
	_, err = client.RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("look at ClusterRole/%s: %w", name, err)
	}
	return err == nil, nil
}

// triedRollout waits for a manager without the lifecycle. One that does not come up, which may be why the cluster
// leaves, has lost its permission to delete Nodes all the same.
func triedRollout() workflow.Phase {
	p := manager.Rollout()
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		err := manager.RunRollout(ctx, r)
		var known *finding.Error
		if ctx.Err() != nil || !errors.As(err, &known) || known.Code != finding.ExitNotInTime {
			return err
		}
		r.Sayf("warning, it goes on without: %v", err)
		return nil
	}
	return off(p)
}

func leavePreflight() workflow.Phase {
	return workflow.Phase{
		Name:    "preflight",
		Journal: workflow.JournalNever,
		Short:   "Show what would be removed, and what would no longer be served, and ask",
		Long:    "Reads the cluster's record, Nodes, Services, kubelets' flags, and what was applied. Writes nothing.",
		Run: func(ctx context.Context, r *workflow.Run) error {
			a := adoptionOf(r)
			checks := []workflow.Check{{ID: finding.CheckPrivileged, Run: workflow.CheckRoot}}
			for _, leavable := range []func(context.Context, *workflow.Run) error{checkMode, checkVIP, checkRoutes, checkStaticPods, checkBalancers} {
				checks = append(checks, workflow.Check{ID: finding.CheckClusterRecord, Run: leavable})
			}
			err := workflow.RunChecks(ctx, r, append(checks, workflow.Check{ID: finding.CheckWritable, Run: workflow.CheckWritable}))
			if err != nil {
				return err
			}
			plan, err := a.plannedNodes(ctx, r)
			if err != nil {
				return err
			}
			if err := a.Check(plan); err != nil {
				return err
			}
			if err := examineLeaving(r.Machine, plan, fleet.ReachBySSH(ctx, r.Env, a.Remote, plan)); err != nil {
				return err
			}
			if err := a.showWhatGoes(ctx, r, plan); err != nil {
				return err
			}
			if err := fleet.RefuseProblems(plan, "their kubelets as they are"); err != nil {
				return err
			}
			if err := r.Confirm(a.Yes, "Take these nodes out of external cloud mode, and remove these objects?"); err != nil {
				return err
			}
			return a.openJournal(ctx, r, Leave()[1:], plan)
		},
	}
}

func leaveNodes() workflow.Phase {
	return workflow.Phase{
		Name:    "nodes",
		Journal: workflow.JournalItself,
		Short:   "Take one kubelet after the other out of external cloud mode",
		Long:    `Reads Nodes. On each machine: "ccmadm node plain". It stops at the first node that fails.`,
		Plan:    planNodes,
		Run: func(ctx context.Context, r *workflow.Run) error {
			a := adoptionOf(r)
			if err := a.eachNode(ctx, r, (*adopter).leave); err != nil {
				return err
			}
			for _, name := range a.Skip {
				r.Sayf("%s was skipped, and is in external mode and has ccmadm's files as before; to end that there, as root: "+
					"ccmadm node plain --purge", name)
			}
			return nil
		},
	}
}

// leave is adopt's way back, for one node.
func (a *adopter) leave(ctx context.Context, n *fleet.Node) error {
	if !n.Here && !n.External && !a.again(n) {
		left, err := a.hasLeft(ctx, n)
		if err != nil {
			return err
		}
		if left {
			return errors.Join(kubelet.Answer(ctx, a.client, n.Name, kubelet.AskedPurge), kubelet.Taint(ctx, a.client, n.Name, false))
		}
	}
	step := journal.Step{
		Name: kubeletStep, Node: n.Name, What: "Take the kubelet out of external cloud mode",
		Before: noFlags, After: noFlags, Undo: "nothing: its kubelet was in no external mode",
	}
	if n.External || n.Unsure || !n.Here && !a.again(n) { // or it does not tell
		step.Before = flagExternal + " --node-ip=" + n.IP
		step.Undo = "ccmadm node external --node-ip=" + n.IP + " on " + n.Name
	}
	return a.nodeStep(ctx, n, step, func(ctx context.Context, n *fleet.Node) error {
		if err := a.plain(ctx, n); err != nil {
			return err
		}
		// A run by hand that was cut short may have asked for more, which nobody answers any more.
		if err := kubelet.Answer(ctx, a.client, n.Name, kubelet.AskedPurge); err != nil {
			return err
		}
		if err := kubelet.Taint(ctx, a.client, n.Name, false); err != nil { // nobody would take it away any more
			return err
		}
		return a.refuseChosen(ctx, n)
	})
}

// plain takes the kubelet's flags back, and waits until that is seen; by hand, files that are gone are seen by the
// answer of their machine, and so is the mode of a kubelet that repeats no address.
func (a *adopter) plain(ctx context.Context, n *fleet.Node) error {
	what := "its kubelet to be out of external mode"
	asked := a.byHand() && !n.Here && (a.op.Purge || !n.External)
	if asked {
		note, flag := kubelet.AskedForget, "--forget"
		if a.op.Purge {
			note, flag = kubelet.AskedPurge, "--purge"
		}
		what = "`ccmadm node plain " + flag + "` there, whose end it notes on its Node"
		if err := kubelet.Ask(ctx, a.client, n.Name, note); err != nil {
			return err
		}
	}
	if err := a.step.Run(ctx, n, fleet.Plain{Purge: a.op.Purge}); err != nil {
		return err
	}
	err := a.await(ctx, n, what, func(node *corev1.Node) bool {
		return !fleet.IsExternal(node) && nodestatus.IsReady(node) && (!asked || node.Annotations[v1alpha1.PurgeAnnotation] == "")
	})
	var late *finding.Error
	if asked && errors.As(err, &late) {
		late.Hint += fmt.Sprintf("; an older ccmadm there notes nothing: once it is done, run the same command again, and while it "+
			"waits: kubectl annotate node %s %s-", n.Name, v1alpha1.PurgeAnnotation)
	}
	return err
}

// again tells of a machine on which the step is done though its kubelet is in no external mode: a run was cut short
// there, or may have been driven from there, and has notes of it, or all of ours is to go.
func (a *adopter) again(n *fleet.Node) bool {
	return n.Unsure || a.op.Purge || n.ControlPlane && !a.byHand()
}

// forgetMachine removes what adopt noted on this machine.
func forgetMachine() workflow.Phase {
	return workflow.Phase{
		Name:  "machine",
		Short: "Remove ccmadm's notes on this machine",
		Long:  "Removes " + machine.RecordFile + " and " + machine.StateFile + ".",
		Run: func(_ context.Context, r *workflow.Run) error {
			if adoptionOf(r).Purge {
				return kubelet.PurgeFiles(r.Env)
			}
			return kubelet.Forget(r.Env)
		},
	}
}
