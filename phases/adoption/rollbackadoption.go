package adoption

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/rollback"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// directionOf returns which of adopt and leave a run was, itself or as a rollback of the other; empty: neither. They go each
// other's way back.
func directionOf(run *journal.Run) string {
	switch command := run.Operation().Command; command {
	case journal.CommandAdopt, journal.CommandLeave:
		return command
	}
	return ""
}

// IsAdoption tells whether a run was one of adopt or leave. Back leads back from it.
func IsAdoption(run *journal.Run) bool { return directionOf(run) != "" }

// Back returns what leads back to before a run of adopt, which is leave, or of leave, which is adopt with the
// settings of before, as it is where adopt has changed the provider: the options and the phases. From wherever the run
// has stopped it is the same. How it is done, and whether it is asked, is the caller's; runs are the whole journal.
func Back(
	ctx context.Context, client kubernetes.Interface, runs []journal.Run, run *journal.Run, how *Adoption,
) (*workflow.Inputs, []workflow.Phase, error) {
	o := &workflow.Inputs{Role: kubeadm.RoleInit, Existing: true, Operation: how}
	if how.Leave = directionOf(run) == journal.CommandAdopt && !hasStep(run, formerProvider().Name); !how.Leave {
		o.Command = journal.Rollback(run.ID, journal.CommandAdopt)
		err := backToAdopted(ctx, client, runs, run, o, how)
		return o, Adopt(), err
	}
	o.Command = journal.Rollback(run.ID, journal.CommandLeave)
	if err := refuseAdoptedBefore(runs, run); err != nil {
		return nil, nil, err
	}
	_, err := workflow.AskRecord(ctx, client)
	switch {
	case apierrors.IsNotFound(err): // it is the first object of all
		return o, []workflow.Phase{unbegun(run)}, nil
	case err != nil:
		return nil, nil, finding.Refusedf("compare with the cluster's record: %w", err).WithHint("nothing was changed")
	}
	return o, Leave(), nil
}

// refuseAdoptedBefore finds a run of adopt that has brought nodes to a cluster that had been adopted: before it was not
// a cluster without us. Runs that were cut short, and that one of them has taken up, are one.
func refuseAdoptedBefore(runs []journal.Run, run *journal.Run) error {
	first := run
	for _, before := range slices.Backward(runs) {
		if before.ID >= first.ID || first.Before == "" {
			continue
		}
		if directionOf(&before) == "" || before.State == journal.Done || before.Shortened {
			break
		}
		first = &before
	}
	if first.Before == "" {
		return nil
	}
	return finding.Refusedf("go back to before run %d: the cluster had been adopted before it, and is not to be left",
		run.ID).
		WithHint("ccmadm journal %d shows how to undo its steps; ccmadm leave takes all nodes out. Nothing was changed",
			run.ID)
}

// hasStep tells whether a run has begun a step.
func hasStep(run *journal.Run, name string) bool {
	return slices.ContainsFunc(run.Steps, func(s journal.Step) bool { return s.Name == name })
}

// backToAdopted fills in the settings of before, and skips nodes that the run has not taken out of external mode: they
// were not in it.
func backToAdopted(
	ctx context.Context, client kubernetes.Interface, runs []journal.Run, run *journal.Run, o *workflow.Inputs, how *Adoption,
) error {
	settings, profile, err := rollback.FormerSettings(run)
	if err != nil {
		return err
	}
	if profile != "" {
		return finding.Refusedf("go back to before run %d: the cluster used a profile of your own", run.ID).
			WithHint("ccmadm journal %d -o json has it; ccmadm adopt --profile FILE. Nothing was changed", run.ID)
	}
	if o.ImageBy, err = rollback.FormerImageBy(run); err != nil {
		return err
	}
	before, err := state.DecodeRecord("the record of before the run", []byte(run.Before))
	if err != nil {
		return err
	}
	if before.LifecycleHeld {
		settings.Lifecycle = "" // it was off for the time of an adoption
	}
	o.Flags = *settings
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return finding.Refusedf("list nodes: %w", err).WithHint("nothing was changed")
	}
	how.Skip = neverExternal(list.Items, takenOut(runs, run))
	return nil
}

// takenOut are the nodes whose kubelet a run of leave has taken out of external mode, or was about to.
func takenOut(runs []journal.Run, run *journal.Run) map[string]bool {
	names := map[string]bool{}
	for _, leave := range leavesOf(runs, run) {
		for _, step := range leave.Steps {
			if step.Name == kubeletStep && strings.HasPrefix(step.Before, flagExternal) {
				names[step.Node] = true
			}
		}
	}
	return names
}

// leavesOf are a run of leave, those before it that did not come to their end, and those after it, newest first. Where none of them
// has a step, the one before has come to its end while the next waited for it, and is among them.
func leavesOf(runs []journal.Run, run *journal.Run) (leaves []journal.Run) {
	stepped := false
	for _, r := range slices.Backward(runs) {
		is := directionOf(&r) == journal.CommandLeave
		if r.Shortened || r.ID < run.ID && (!is || r.State == journal.Done && stepped) {
			break
		}
		if is {
			leaves, stepped = append(leaves, r), stepped || len(r.Steps) > 0
		}
	}
	return leaves
}

func neverExternal(list []corev1.Node, taken map[string]bool) (names []string) {
	for i := range list {
		if n := &list[i]; !fleet.IsExternal(n) && !taken[n.Name] {
			names = append(names, n.Name)
		}
	}
	return names
}
