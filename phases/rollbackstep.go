package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
)

// StepBack returns what leads back to before a step of a run of adopt or leave: the nodes that it came to from there on
// are as before it, those before are done. That is where the run would be, had it stopped there, and the same command
// goes on from it. Steps count from 1; those before the first node are led back by [AdoptionBack] alone.
func StepBack(runs []journal.Run, run *journal.Run, step int, how Adoption) (*Options, []Phase, error) {
	if step > len(run.Steps) {
		return nil, nil, finding.Usagef("find step %d.%d: run %d has %d steps", run.ID, step, run.ID, len(run.Steps)).
			WithHint("ccmadm journal %d lists them", run.ID)
	}
	var err error
	if how.Only, err = changedSince(runs, run, step); err != nil {
		return nil, nil, err
	}
	rest := []Phase{adoptNodes()}
	command := adoptCommand
	if how.Leave = adoptionOf(run) == adoptCommand; how.Leave {
		rest, command = []Phase{leaveNodes()}, leaveCommand
		on, err := hadLifecycle(firstOf(runs, run))
		if err != nil {
			return nil, nil, err
		}
		if !on {
			rest = []Phase{off(rbac()), off(addon()), triedRollout(), off(record()), leaveNodes()}
		}
	}
	o := &Options{
		Role: kubeadm.RoleInit, Living: true, Adoption: &how, Kubeadm: kubeadm.Flags(kubeadm.RoleInit),
		Command: fmt.Sprintf("%s (rollback %d.%d)", command, run.ID, step),
	}
	return o, append([]Phase{stepPreflight(run, rest)}, rest...), nil
}

// changedSince names the nodes whose kubelet a run has changed from a step on, or runs of the same command behind it.
// The two steps of a node go together: what its kubelet has become external for is its provider ID.
func changedSince(runs []journal.Run, run *journal.Run, step int) ([]string, error) {
	together := finding.Refusedf("go back to before step %d.%d: these steps are undone together", run.ID, step).
		WithHint("ccmadm rollback %d leads back to before the run. Nothing was changed", run.ID)
	command := adoptionOf(run)
	first := slices.IndexFunc(run.Steps, func(s journal.Step) bool { return s.Name == kubeletStep })
	if command == "" || hasStep(run, formerProvider().Name) || first < 0 || step-1 < first {
		return nil, together
	}
	steps := run.Steps
	for _, r := range runs {
		switch {
		case r.ID <= run.ID || len(r.Steps) == 0:
		case adoptionOf(&r) != command || r.Shortened:
			return nil, finding.Refusedf("go back to before step %d.%d: run %d, ccmadm %s, has come after it", run.ID, step,
				r.ID, r.Command).WithHint("ccmadm rollback %d leads back to before that one first. Nothing was changed", r.ID)
		default:
			steps = slices.Concat(steps, r.Steps)
		}
	}
	since := map[string]bool{}
	for _, s := range steps[step-1:] {
		if s.Name == kubeletStep || s.Name == initializeStep {
			since[s.Node] = true
		}
	}
	names := []string{}
	for _, s := range steps {
		changed := strings.Contains(s.Before, flagExternal) == (command == leaveCommand)
		if s.Name == kubeletStep && since[s.Node] && changed && !slices.Contains(names, s.Node) {
			names = append(names, s.Node)
		}
	}
	if len(names) == 0 && command == leaveCommand {
		return nil, together
	}
	return names, nil
}

// hadLifecycle tells whether Nodes might be deleted before a run of adopt.
func hadLifecycle(run *journal.Run) (bool, error) {
	if run.Before == "" {
		return false, nil
	}
	before, err := v1alpha1.DecodeRecord("the record of before the run", []byte(run.Before))
	return err == nil && before.Configuration.Lifecycle != v1alpha1.LifecycleOff, err
}

// stepPreflight is for what leads some nodes back, in a cluster whose manager stays.
func stepPreflight(run *journal.Run, rest []Phase) Phase {
	there := func(ctx context.Context, d *Data) error {
		s, err := d.Settings(ctx)
		if err != nil {
			return err
		}
		if is, err := scheduledManager(ctx, d, s); err != nil || is {
			return err
		}
		return finding.Refusedf("go back to before a step of run %d: there is no cloud-controller-manager any more", run.ID).
			WithHint("ccmadm rollback %d leads back to before the run. Nothing was changed", run.ID)
	}
	return Phase{
		Name: "preflight", Short: "Show which nodes would be led back, and ask",
		Run: func(ctx context.Context, d *Data) error {
			err := runChecks(ctx, d, []Check{
				{finding.CheckPrivileged, checkRoot},
				{finding.CheckClusterRecord, there},
				{finding.CheckWritable, checkWritable},
			})
			if err != nil {
				return err
			}
			plan, err := plannedNodes(ctx, d)
			if err != nil {
				return err
			}
			if err := checkAsked(d, plan); err != nil {
				return err
			}
			reachBySSH(ctx, d, plan)
			sayLedBack(d, plan)
			if err := refusePlan(plan, "them as they are"); err != nil {
				return err
			}
			if err := confirm(d, "Lead these nodes back?"); err != nil {
				return err
			}
			return beginAdoption(ctx, d, rest, plan)
		},
	}
}

func sayLedBack(d *Data, plan []*plannedNode) {
	for _, n := range plan {
		switch {
		case n.skipped:
		case d.Adoption.Leave:
			d.Sayf("would take Node/%s out of external mode; its provider ID %s stays", n.name, finding.Clean(n.providerID))
		default:
			d.Sayf("would set Node/%s to external mode, with the address %s", n.name, n.ip)
		}
	}
}
