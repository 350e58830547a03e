package phases

import (
	"context"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// onlyApplied are the objects that the list of what was applied has, and those that ccmadm writes beside it. It names
// the others: a GitOps controller applies the same labels from `ccmadm render`.
func onlyApplied(ctx context.Context, d *Data, found []leftover) ([]leftover, error) {
	subjects, err := appliedSubjects(ctx, d)
	if err != nil {
		return nil, err
	}
	ours, others := splitApplied(found, subjects)
	for _, subject := range others {
		d.Sayf("%s stays: it has the label %s=%s, and ccmadm did not apply it; `kubectl delete` removes it", subject,
			v1alpha1.ManagedByLabel, v1alpha1.FieldManager)
	}
	return ours, nil
}

func splitApplied(found []leftover, applied []string) (ours []leftover, others []string) {
	for _, o := range found {
		if slices.Contains(applied, o.subject) || writtenByRuns(o.subject) {
			ours = append(ours, o)
		} else {
			others = append(others, o.subject)
		}
	}
	return ours, others
}

// writtenByRuns are objects of ours that no list has: a run, the manager or the provider writes them.
func writtenByRuns(subject string) bool {
	const namespace = "/" + v1alpha1.Namespace + "/"
	for _, prefix := range []string{claimKind().Kind + "/", "Pod" + namespace + v1alpha1.FieldManager + "-"} {
		if strings.HasPrefix(subject, prefix) {
			return true
		}
	}
	if strings.Contains(subject, "/"+v1alpha1.RehearsalPrefix) { // of a rehearsal that was cut short
		return true
	}
	return slices.Contains([]string{
		"ConfigMap" + namespace + v1alpha1.RecordName,
		"ConfigMap" + namespace + v1alpha1.AppliedName,
		"ConfigMap" + namespace + v1alpha1.JournalName,
		"ConfigMap" + namespace + v1alpha1.LastGoodMachinesName,
		leaseKind().Kind + namespace + v1alpha1.RunLeaseName,
	}, subject)
}
