package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// otherStep is the journal's name for the upgrade of a worker, which has no journal of its own.
const otherStep = "upgrade-node"

func upgradeOthers() workflow.Phase {
	return workflow.Phase{
		Name:  "others",
		Short: "Upgrade the other machines from here, where --via says how",
		Long: `Runs "ccmadm upgrade node" on each other control plane, one after the other, then on the workers, and
streams what it says. A control plane has a run of its own in the journal, and this one gives it the Lease; a worker
is a step of a run of this machine's. It stops at the first machine that fails.`,
		Plan: func(_ context.Context, r *workflow.Run) (string, error) {
			u := upgradeOf(r)
			if u.ByHand() {
				return "the other machines are upgraded there", nil
			}
			var lines []string
			for _, o := range u.others {
				if !o.Skipped {
					lines = append(lines, fmt.Sprintf("would run on %s: ccmadm upgrade node", o.Name))
				}
			}
			return strings.Join(append(lines, finding.Count(len(u.others), "machine")+" looked at"), "\n"), nil
		},
		Run: func(ctx context.Context, r *workflow.Run) error {
			u := upgradeOf(r)
			if u.ByHand() {
				return nil
			}
			client, err := workflow.AdminClient(r.Env)
			if err == nil {
				err = r.Close(ctx) // each control plane takes the Lease itself
			}
			if err != nil {
				return stoppedHere(r.Host, err)
			}
			if u.Parallel > 1 {
				r = r.Together()
			}
			return (&upgrader{r: r, op: u, client: client, way: u.way(r.Env, client)}).run(ctx)
		},
	}
}

// upgrader upgrades other machines.
type upgrader struct {
	r      *workflow.Run
	op     *Upgrade
	client kubernetes.Interface
	way    fleet.Inspector

	all      []*other // that are to be upgraded, in their order
	progress *fleet.NodesProgress
	reached  atomic.Int32 // of those
}

func (u *upgrader) run(ctx context.Context) error {
	workers := u.workersLeft()
	var controlPlanes []*other
	for _, o := range u.op.others {
		if o.ControlPlane && !o.Skipped {
			controlPlanes = append(controlPlanes, o)
		}
	}
	u.all = append(slices.Clone(controlPlanes), workers...)
	u.progress = fleet.NewNodesProgress(u.r.Env, nodesOf(u.all))
	if err := u.each(ctx, controlPlanes, 1, u.upgrade); err != nil {
		return err
	}
	if len(workers) == 0 {
		return u.closeWorkers(ctx)
	}
	if err := u.beginWorkers(ctx); err != nil {
		return stoppedHere(u.r.Host, err)
	}
	err := u.each(ctx, workers, u.op.Parallel, u.upgradeWorker)
	return workflow.JoinErrors(err, u.r.End(ctx, err))
}

// each upgrades machines, so many at a time.
func (u *upgrader) each(
	ctx context.Context, list []*other, atOnce int, do func(context.Context, *other) error,
) error {
	byName := map[string]*other{}
	for _, o := range list {
		byName[o.Name] = o
	}
	failed := u.progress.Each(nodesOf(list), atOnce, func(n *fleet.Node) error {
		u.reached.Add(1)
		return do(ctx, byName[n.Name])
	})
	if len(failed) > 0 {
		return u.stopped(failed)
	}
	return nil
}

// upgrade runs the command on a machine. Which ccmadm a control plane has, if any, is noted from here: in a pod it is
// another one that has worked there.
func (u *upgrader) upgrade(ctx context.Context, o *other) error {
	args, err := u.op.upgradeNodeArgs(u.r, o)
	if err != nil {
		return err
	}
	if err := u.way.Run(ctx, o.Node, fleet.Command(args)); err != nil {
		return err
	}
	if o.report == nil {
		return nil
	}
	o.report.Upgraded, o.report.Upgrading = "v"+u.op.target.String(), ""
	if o.ControlPlane {
		if err := workflow.NoteReleaseOn(ctx, u.client, o.Name, finding.Clean(o.report.Ccmadm)); err != nil {
			u.r.Sayf("%s: warning, %v", o.Name, err)
		}
	}
	return nil
}

func (u *upgrader) upgradeWorker(ctx context.Context, o *other) error {
	step := journal.Step{
		Name: otherStep, Node: o.Name, What: "Upgrade the machine's configuration",
		After: "v" + u.op.target.String(), Undo: "Kubernetes does not go back",
	}
	return workflow.NodeStep(ctx, u.r, step, func(ctx context.Context) error { return u.upgrade(ctx, o) })
}

// workersLeft are those on which kubeadm has something to do, and those whose last step did not come to its end.
func (u *upgrader) workersLeft() []*other {
	target := u.op.target
	var list []*other
	for _, o := range u.op.others {
		switch {
		case o.ControlPlane || o.Skipped:
		case o.left(target):
			list = append(list, o)
		default:
			u.r.Sayf("%s: nothing is left to be done", o.Name)
		}
	}
	return list
}

// left tells whether a machine is to be reached from here. A control plane looks itself for what is left.
func (o *other) left(target *version.Version) bool {
	if o.Skipped || o.ControlPlane {
		return !o.Skipped
	}
	done := o.report != nil && o.report.Upgraded == "v"+target.String() || !planner.Older(o.Version, target)
	return !done || o.told(target).Unfinished
}

// beginWorkers opens a run of this machine's for the workers. The record is as it is by now, and stays so.
func (u *upgrader) beginWorkers(ctx context.Context) error {
	rec, err := workflow.AskRecord(ctx, u.client)
	if err != nil {
		return err
	}
	before, err := rec.Encode()
	if err != nil {
		return err
	}
	r := u.r.InPhase(u.r.Phase)
	r.Command = journal.CommandUpgradeWorkers + " v" + u.op.target.String()
	return workflow.OpenRun(ctx, r, u.client, string(before))
}

// closeWorkers ends, in the journal, a run for workers that failed or was interrupted on this machine, once no worker is left: another
// machine has upgraded them since, or their Nodes are gone. A worker that is skipped is left, unless its
// kubelet is of the version.
func (u *upgrader) closeWorkers(ctx context.Context) error {
	left := func(o *other) bool {
		return !o.ControlPlane && (o.cutShort || o.Skipped && planner.Older(o.Version, u.op.target))
	}
	if slices.ContainsFunc(u.op.others, left) {
		return nil
	}
	here, err := workflow.NodeName(u.r.Host)
	if err != nil {
		return err
	}
	runs, err := journal.Read(ctx, u.client)
	if err != nil {
		return stoppedHere(u.r.Host, err)
	}
	last := lastUpgrade(runs, here)
	if last.State == journal.Done || last.Operation().Command != journal.CommandUpgradeWorkers {
		return nil
	}
	if err := u.beginWorkers(ctx); err != nil {
		return stoppedHere(u.r.Host, err)
	}
	ended, err := workflow.HasEnded(ctx, u.client, &last)
	if err == nil && !ended {
		u.r.Sayf("run %d of the journal was cut short or failed, and no worker is left: closed", last.ID)
	}
	return errors.Join(err, u.r.Close(ctx))
}

// goesOn says how to go on and how to go back.
const goesOn = "the machines before are done, and those after were not touched; run the same command again: it resumes here. " +
	"Kubernetes does not go back; `ccmadm journal` names the runs, and `ccmadm rollback RUN` leads the " +
	"cloud-controller-manager to before one of them"

// stopped is of machines that did not come through. This one is done by then. All was done only where no machine is
// left, and each did its part.
func (u *upgrader) stopped(failed []fleet.FailedNode) error {
	err := fleet.StoppedAt(failed, nil, goesOn)
	if int(u.reached.Load()) < len(u.all) || slices.ContainsFunc(failed, fleet.FailedNode.Undone) {
		err.Code = finding.ExitError
	}
	return err
}

// stoppedHere is what keeps this machine from going on to others that are left, whatever exit status it has by itself:
// something was changed, and not all was done.
func stoppedHere(h *workflow.Host, err error) error {
	name, failed := workflow.NodeName(h)
	if failed != nil {
		return finding.Errorf("%w", errors.Join(err, failed)).WithHint(goesOn)
	}
	stopped := fleet.StoppedAt([]fleet.FailedNode{{Node: &fleet.Node{Name: name}, Err: err}}, nil, goesOn)
	stopped.Code = finding.ExitError
	return stopped
}

// beforeOthers has a phase that waits in vain end the run as one that has not done all, where other machines are left.
func beforeOthers(p workflow.Phase) workflow.Phase {
	run := p.Run
	p.Run = func(ctx context.Context, r *workflow.Run) error {
		u := upgradeOf(r)
		err := run(ctx, r)
		left := slices.ContainsFunc(u.others, func(o *other) bool { return o.left(u.target) })
		if err != nil && left {
			return stoppedHere(r.Host, err)
		}
		return err
	}
	return p
}

func nodesOf(list []*other) []*fleet.Node {
	var plan []*fleet.Node
	for _, o := range list {
		plan = append(plan, o.Node)
	}
	return plan
}
