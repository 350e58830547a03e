package phases

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// Leave lists the phases of `ccmadm leave` in their order: the way of adopt back.
func Leave() []Phase {
	return []Phase{
		leavePreflight(),
		off(rbac()), // nobody may delete a Node from here on
		off(addon()),
		triedRollout(),
		leaveNodes(),
		forgetMachine(), // before the record goes: until then the same command goes on
		removeObjects(),
		purge(),
	}
}

// off runs a phase as if the lifecycle were off. A manager that is gone, by a run that was cut short or as it never
// came, deletes nothing and is not brought back, nor are its permissions.
func off(p Phase) Phase {
	run := p.Run
	p.Run = func(ctx context.Context, d *Data) error {
		s, err := d.Settings(ctx)
		if err != nil {
			return err
		}
		there, err := scheduledManager(ctx, d, s)
		if err == nil && !there && p.Name == rbac().Name {
			there, err = mayDelete(ctx, d, s)
		}
		if err != nil {
			return err
		}
		if !there {
			d.Sayf("there is no cloud-controller-manager any more")
			return nil
		}
		d.holdLifecycle = true
		return run(ctx, d)
	}
	return p
}

// mayDelete tells whether the manager's permissions are there, with or without it.
func mayDelete(ctx context.Context, d *Data, s *Settings) (bool, error) {
	client, err := connect(d, machine.AdminConf)
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
func triedRollout() Phase {
	p := rollout()
	p.Run = func(ctx context.Context, d *Data) error {
		err := runRollout(ctx, d)
		var known *finding.Error
		if ctx.Err() != nil || !errors.As(err, &known) || known.Code != finding.ExitNotInTime {
			return err
		}
		d.Sayf("warning, it goes on without: %v", err)
		return nil
	}
	return off(p)
}

func leavePreflight() Phase {
	return Phase{
		Name:    "preflight",
		Journal: JournalNever,
		Short:   "Show what would go, and what nobody would serve any more, and ask",
		Long:    "Reads the cluster's record, Nodes, Services, kubelets' flags, and what was applied. Writes nothing.",
		Run: func(ctx context.Context, d *Data) error {
			err := runChecks(ctx, d, []Check{
				{finding.CheckPrivileged, checkRoot},
				{finding.CheckClusterRecord, checkLeavable},
				{finding.CheckWritable, checkWritable},
			})
			if err != nil {
				return err
			}
			plan, err := plannedNodes(ctx, d)
			if err != nil {
				return err
			}
			if err := adoptionOf(d).check(plan); err != nil {
				return err
			}
			if err := examineLeaving(d, plan, reachBySSH(ctx, d, adoptionOf(d).Remote, plan)); err != nil {
				return err
			}
			if err := showWhatGoes(ctx, d, plan); err != nil {
				return err
			}
			if err := refusePlan(plan, "their kubelets as they are"); err != nil {
				return err
			}
			if err := confirm(d, "Take these nodes out of external cloud mode, and remove these objects?"); err != nil {
				return err
			}
			return beginAdoption(ctx, d, Leave()[1:], plan)
		},
	}
}

func leaveNodes() Phase {
	return Phase{
		Name:     "nodes",
		Journal:  JournalItself,
		Short:    "Take one kubelet after the other out of external cloud mode",
		Long:     `Reads Nodes. On each machine: "ccmadm node plain". It stops at the first node that does not come through.`,
		Foretell: foretellNodes,
		Run: func(ctx context.Context, d *Data) error {
			if err := eachNode(ctx, d, (*adopter).leave); err != nil {
				return err
			}
			for _, name := range adoptionOf(d).Skip {
				d.Sayf("%s was skipped, and is in external mode and has ccmadm's files as before; to end that there, as root: "+
					"ccmadm node plain --purge", name)
			}
			return nil
		},
	}
}

// What the journal says of a kubelet.
const (
	flagExternal = "--cloud-provider=external"
	noFlags      = "no such flags of ours"
)

// leave is adopt's way back, for one node.
func (a *adopter) leave(ctx context.Context, n *plannedNode) error {
	if !n.here && !n.external && !a.again(n) {
		left, err := a.hasLeft(ctx, n)
		if err != nil {
			return err
		}
		if left {
			return errors.Join(answerPurge(ctx, a.client, n.name), taint(ctx, a.client, n.name, false))
		}
	}
	step := journal.Step{
		Name: kubeletStep, Node: n.name, What: "Take the kubelet out of external cloud mode",
		Before: noFlags, After: noFlags, Undo: "nothing: its kubelet was in no external mode",
	}
	if n.external || n.unsure || !n.here && !a.again(n) { // or it does not tell
		step.Before = flagExternal + " --node-ip=" + n.ip
		step.Undo = "ccmadm node external --node-ip=" + n.ip + " on " + n.name
	}
	return a.nodeStep(ctx, n, step, func(ctx context.Context, n *plannedNode) error {
		if err := a.plain(ctx, n); err != nil {
			return err
		}
		// A run by hand that was cut short may have asked for a purge, which nobody answers any more.
		if err := answerPurge(ctx, a.client, n.name); err != nil {
			return err
		}
		if err := taint(ctx, a.client, n.name, false); err != nil { // nobody would take it away any more
			return err
		}
		return a.refuseChosen(ctx, n)
	})
}

// plain takes the kubelet's flags back, and waits until that is seen; by hand, files that are gone are seen by the
// answer of their machine.
func (a *adopter) plain(ctx context.Context, n *plannedNode) error {
	forget, what := "--forget", "its kubelet to be out of external mode"
	if adoptionOf(a.d).Purge {
		forget = "--purge"
	}
	asked := adoptionOf(a.d).Purge && a.byHand() && !n.here
	if asked {
		what = "`ccmadm node plain --purge` there, whose end it notes on its Node"
		if err := askPurge(ctx, a.client, n.name, true); err != nil {
			return err
		}
	}
	if err := a.step.run(ctx, n, "plain", forget); err != nil {
		return err
	}
	return a.await(ctx, n, what, func(node *corev1.Node) bool {
		return !isExternal(node) && nodes.IsReady(node) && (!asked || node.Annotations[v1alpha1.PurgeAnnotation] == "")
	})
}

func (a *adopter) byHand() bool { return adoptionOf(a.d).byHand() }

// again tells of a machine on which the step is done though its kubelet is in no external mode: a run was cut short
// there, or may have been driven from there, and has notes of it, or all of ours is to go.
func (a *adopter) again(n *plannedNode) bool {
	return n.unsure || adoptionOf(a.d).Purge || n.controlPlane && !a.byHand()
}

// forgetMachine removes what adopt noted on this machine.
func forgetMachine() Phase {
	return Phase{
		Name:  "machine",
		Short: "Remove ccmadm's notes on this machine",
		Long:  "Removes " + machine.RecordFile + " and " + machine.StateFile + ".",
		Run: func(_ context.Context, d *Data) error {
			if adoptionOf(d).Purge {
				return purgeFiles(d)
			}
			return forget(d)
		},
	}
}
