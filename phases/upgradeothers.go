package phases

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
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
)

// otherStep is the journal's name for the upgrade of a worker, which has no journal of its own.
const otherStep = "upgrade-node"

// upgradeWorkers begins the command of a run of workers' upgrades alone, as the journal has it.
const upgradeWorkers = "upgrade workers "

func upgradeOthers() Phase {
	return Phase{
		Name:  "others",
		Short: "Upgrade the other machines from here, where --via says how",
		Long: `Runs "ccmadm upgrade node" on each other control plane, one after the other, then on the workers, and
streams what it says. A control plane has a run of its own in the journal, and this one gives it the Lease; a worker
is a step of a run of this machine's. It stops at the first machine that does not come through.`,
		Foretell: func(_ context.Context, d *Data) (string, error) {
			if upgradeOf(d).byHand() {
				return "the other machines are upgraded there", nil
			}
			var lines []string
			for _, o := range upgradeOf(d).others {
				if !o.skipped {
					lines = append(lines, fmt.Sprintf("would run on %s: ccmadm upgrade node", o.name))
				}
			}
			return strings.Join(append(lines, fmt.Sprintf("%d machines looked at", len(upgradeOf(d).others))), "\n"), nil
		},
		Run: func(ctx context.Context, d *Data) error {
			if upgradeOf(d).byHand() {
				return nil
			}
			client, err := livingClient(d)
			if err == nil {
				err = d.Close(ctx) // each control plane takes the Lease itself
			}
			if err != nil {
				return stoppedHere(d, err)
			}
			if upgradeOf(d).Parallel > 1 {
				d = d.together()
			}
			return (&upgrader{d: d, client: client, way: upgradeWay(d, client)}).run(ctx)
		},
	}
}

// upgrader upgrades other machines.
type upgrader struct {
	d      *Data
	client kubernetes.Interface
	way    asker

	all      []*other // that are to be upgraded, in their order
	progress *nodesProgress
	reached  atomic.Int32 // of those
}

func (u *upgrader) run(ctx context.Context) error {
	workers := u.workersLeft()
	var controlPlanes []*other
	for _, o := range upgradeOf(u.d).others {
		if o.controlPlane && !o.skipped {
			controlPlanes = append(controlPlanes, o)
		}
	}
	u.all = append(slices.Clone(controlPlanes), workers...)
	u.progress = newNodesProgress(u.d, nodesOf(u.all))
	if err := u.each(ctx, controlPlanes, 1, u.upgrade); err != nil || len(workers) == 0 {
		return err
	}
	if err := u.beginWorkers(ctx); err != nil {
		return stoppedHere(u.d, err)
	}
	err := u.each(ctx, workers, upgradeOf(u.d).Parallel, u.upgradeWorker)
	return joined(err, u.d.end(ctx, err))
}

// each upgrades machines, so many at a time, and begins no other once one has failed.
func (u *upgrader) each(
	ctx context.Context, list []*other, atOnce int, do func(context.Context, *other) error,
) error {
	byName := map[string]*other{}
	for _, o := range list {
		byName[o.name] = o
	}
	failed := together(nodesOf(list), atOnce, func(n *plannedNode) error {
		u.reached.Add(1)
		began := u.progress.began(n)
		err := do(ctx, byName[n.name])
		u.progress.ended(n, began, err)
		return err
	})
	if len(failed) > 0 {
		return u.stopped(failed)
	}
	return nil
}

// upgrade runs the command on a machine. Which ccmadm a control plane has, if any, is noted from here: in a pod it is
// another one that has worked there.
func (u *upgrader) upgrade(ctx context.Context, o *other) error {
	args, err := upgradeNodeArgs(u.d, o)
	if err != nil {
		return err
	}
	if err := u.way.run(ctx, o.plannedNode, args...); err != nil {
		return err
	}
	if o.report == nil {
		return nil
	}
	o.report.Upgraded, o.report.Upgrading = "v"+upgradeOf(u.d).target.String(), ""
	if o.controlPlane {
		if err := noteReleaseOn(ctx, u.client, o.name, finding.Clean(o.report.Ccmadm)); err != nil {
			u.d.Sayf("%s: warning, %v", o.name, err)
		}
	}
	return nil
}

func (u *upgrader) upgradeWorker(ctx context.Context, o *other) error {
	step := journal.Step{
		Name: otherStep, Node: o.name, What: "Upgrade the machine's configuration",
		After: "v" + upgradeOf(u.d).target.String(), Undo: "Kubernetes does not go back",
	}
	return nodeStep(ctx, u.d, step, func(ctx context.Context) error { return u.upgrade(ctx, o) })
}

// workersLeft are those on which kubeadm has something to do, and those whose last step did not come to its end.
func (u *upgrader) workersLeft() []*other {
	target := upgradeOf(u.d).target
	var list []*other
	for _, o := range upgradeOf(u.d).others {
		switch {
		case o.controlPlane || o.skipped:
		case o.left(target):
			list = append(list, o)
		default:
			u.d.Sayf("%s: nothing is left to be done", o.name)
		}
	}
	return list
}

// left tells whether a machine is to be reached from here. A control plane looks itself for what is left.
func (o *other) left(target *version.Version) bool {
	if o.skipped || o.controlPlane {
		return !o.skipped
	}
	done := o.report != nil && o.report.Upgraded == "v"+target.String() || !planner.Older(o.version, target)
	return !done || o.told(target).Unfinished
}

// beginWorkers opens a run of this machine's for the workers. The record is as it is by now, and stays so.
func (u *upgrader) beginWorkers(ctx context.Context) error {
	rec, err := askRecord(ctx, u.client)
	if err != nil {
		return err
	}
	before, err := rec.Encode()
	if err != nil {
		return err
	}
	d := *u.d
	d.Command = upgradeWorkers + "v" + upgradeOf(&d).target.String()
	return openRun(ctx, &d, u.client, string(before))
}

// goesOn says how to go on and how to go back.
const goesOn = "the machines before are done, and those after were not touched; the same command goes on from here. " +
	"Kubernetes does not go back; `ccmadm journal` names the runs, and `ccmadm rollback RUN` leads the " +
	"cloud-controller-manager to before one of them"

// stopped is of machines that did not come through. This one is done by then. All was done only where no machine is
// left, and each did its part.
func (u *upgrader) stopped(failed []notThrough) error {
	err := stoppedAt(failed, nil, goesOn)
	if int(u.reached.Load()) < len(u.all) || slices.ContainsFunc(failed, notThrough.undone) {
		err.Code = finding.ExitError
	}
	return err
}

// stoppedHere is what keeps this machine from going on to others that are left, whatever exit status it has by itself:
// something was changed, and not all was done.
func stoppedHere(d *Data, err error) error {
	name, failed := nodeName(d)
	if failed != nil {
		return finding.Errorf("%w", errors.Join(err, failed)).WithHint(goesOn)
	}
	stopped := stoppedAt([]notThrough{{&plannedNode{name: name}, err}}, nil, goesOn)
	stopped.Code = finding.ExitError
	return stopped
}

// beforeOthers has a phase that waits in vain end the run as one that has not done all, where other machines are left.
func beforeOthers(p Phase) Phase {
	run := p.Run
	p.Run = func(ctx context.Context, d *Data) error {
		err := run(ctx, d)
		left := slices.ContainsFunc(upgradeOf(d).others, func(o *other) bool { return o.left(upgradeOf(d).target) })
		if err != nil && left {
			return stoppedHere(d, err)
		}
		return err
	}
	return p
}

// undone tells a machine that is not upgraded from one on which something does not answer in time.
func (n notThrough) undone() bool {
	var known *finding.Error
	return !errors.As(n.err, &known) || known.Code != finding.ExitNotInTime
}

func nodesOf(list []*other) []*plannedNode {
	var plan []*plannedNode
	for _, o := range list {
		plan = append(plan, o.plannedNode)
	}
	return plan
}
