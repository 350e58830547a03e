package adoption

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Ending is what is left to do of a run of leave that was interrupted after it had removed the cluster's record, by which the phases of
// leave go; nil: there is no such run.
func Ending(ctx context.Context, client kubernetes.Interface) ([]workflow.Phase, error) {
	switch _, err := workflow.AskRecord(ctx, client); {
	case err == nil:
		return nil, nil
	case !apierrors.IsNotFound(err):
		return nil, finding.Refusedf("compare with the cluster's record: %w", err).
			WithHint("nothing was changed; run the same command again when the API server answers")
	}
	runs, err := journal.Read(ctx, client)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	last := workflow.LeftOpen(runs, runs[len(runs)-1].Command)
	if last == nil || directionOf(last) != journal.CommandLeave {
		return nil, nil
	}
	return []workflow.Phase{unbegun(last)}, nil
}

// unbegun removes what is left of a run where the cluster has no record: a run of adopt has not come that far, or one of leave was
// interrupted after it had removed the record.
func unbegun(run *journal.Run) workflow.Phase {
	return workflow.Phase{
		Name:  "objects",
		Short: "Remove what a run has applied that did not come as far as the cluster's record",
		Long:  "Reads the Nodes and the ConfigMap kube-system/" + v1alpha1.AppliedName + ". Removes what it lists.",
		Run: func(ctx context.Context, r *workflow.Run) error {
			client, err := workflow.Connect(r.Env, machine.AdminConf)
			if err != nil {
				return err
			}
			runs, err := journal.Read(ctx, client)
			if err != nil {
				return err
			}
			open := workflow.LeftOpen(runs, run.Command, r.Command)
			if err := refuseLostRecord(ctx, client, adoptionOf(r).Skip, open); err != nil {
				return err
			}
			subjects, err := appliedSubjects(ctx, r.Env)
			if err != nil {
				return err
			}
			return removeUnbegun(ctx, r, client, subjects, open)
		},
	}
}

// removeUnbegun removes what was applied, and ends the run that was left open, if there is one, in the journal.
func removeUnbegun(ctx context.Context, r *workflow.Run, client kubernetes.Interface, subjects []string, open *journal.Run) error {
	if len(subjects) == 0 && (open == nil || r.DryRun) {
		r.Sayf("the cluster is as it was before that run: nothing to do")
		return nil
	}
	for _, subject := range subjects {
		r.Sayf("would remove %s", subject)
	}
	if len(subjects) > 0 {
		if err := r.Confirm(adoptionOf(r).Yes, "Remove these objects?"); err != nil || r.DryRun {
			return err
		}
	}
	if err := refuseNewRecord(ctx, r, client); err != nil { // the question may have waited for long
		return err
	}
	before := ""
	if open != nil && directionOf(open) == journal.CommandLeave {
		before = open.Before // the record that the interrupted run has removed leads back from this one
	}
	if err := workflow.OpenRun(ctx, r, client, before); err != nil {
		return err
	}
	if err := refuseNewRecord(ctx, r, client); err != nil {
		return err
	}
	if open != nil {
		ended, err := workflow.HasEnded(ctx, client, open)
		if err != nil {
			return err
		}
		if ended {
			r.Sayf("run %d of the journal has ended since this run looked for it: nothing was changed", open.ID)
			return nil
		}
	}
	if len(subjects) == 0 {
		workflow.SayClosed(r, open)
		return nil
	}
	applier, err := workflow.NewApplier(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	return workflow.JournalStep(ctx, r, workflow.Phase{
		Name: "objects", Short: "Remove what was applied",
		Run: func(ctx context.Context, r *workflow.Run) error { return removeApplied(ctx, r.Env, applier) },
	}, "", "ccmadm adopt")
}

// refuseNewRecord finds a record that another run has published since this one looked for it: that cluster is adopted, and is not to
// lose its manager. Where this run has begun in the journal it ends there: nothing is left to go on with.
func refuseNewRecord(ctx context.Context, r *workflow.Run, client kubernetes.Interface) error {
	switch _, err := workflow.AskRecord(ctx, client); {
	case err == nil:
		return errors.Join(
			finding.Refusedf("begin: another run has published the cluster's record since this run looked for it").
				WithHint("ccmadm journal shows it; run the same command again. Nothing was changed"),
			r.Close(ctx))
	case !apierrors.IsNotFound(err):
		return finding.Refusedf("compare with the cluster's record: %w", err).WithHint("nothing was changed")
	}
	return nil
}

// refuseLostRecord finds kubelets in external mode, whose cluster has lost its record: it was no run that had only
// begun. Those that leave has skipped are in external mode still: a run of it that was interrupted behind its nodes has left them.
func refuseLostRecord(ctx context.Context, client kubernetes.Interface, skip []string, open *journal.Run) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return finding.Refusedf("list nodes: %w", err).WithHint("nothing was changed")
	}
	var external []string
	for i := range list.Items {
		if n := &list.Items[i]; fleet.IsExternal(n) {
			external = append(external, n.Name)
		}
	}
	i := slices.IndexFunc(external, func(name string) bool { return !slices.Contains(skip, name) })
	if i < 0 {
		return nil
	}
	refused := finding.Refusedf("remove what was applied: Node/%s is in external mode, and the cluster has no record", external[i])
	if open != nil && directionOf(open) == journal.CommandLeave && hasStep(open, removeObjects().Name) {
		return refused.WithHint("run %d was interrupted while it removed objects, its last step: `ccmadm leave --skip %s` ends it, and "+
			"leaves external mode on there; nothing was changed", open.ID, strings.Join(external, ","))
	}
	return refused.WithHint("run `ccmadm adopt` to write the record again, then `ccmadm leave`; nothing was changed")
}
