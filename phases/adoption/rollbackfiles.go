package adoption

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// Lost says whether a provider's configuration, credentials and list of machines, which are in no record, are nowhere
// any more.
type Lost string

// The answers. Perhaps: nobody has noted whether there were any.
const (
	LostNone    Lost = "None"
	LostAll     Lost = "All"
	LostPerhaps Lost = "Perhaps"
)

// LostFiles tells it of what led to before a run: the Secret with the files has gone, or has another provider's.
func LostFiles(
	ctx context.Context, client kubernetes.Interface, runs []journal.Run, run *journal.Run, provider string,
) (Lost, error) {
	profile, err := templates.Load(provider)
	if err != nil || profile.Config == nil && len(profile.Credentials) == 0 {
		return LostNone, err
	}
	secret, err := client.CoreV1().Secrets(v1alpha1.Namespace).Get(ctx, v1alpha1.CloudConfigName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		var steps []journal.Step
		for _, leave := range leavesOf(runs, run) {
			if leavesProvider(&leave, provider) {
				steps = append(steps, leave.Steps...)
			}
		}
		return removedFiles(steps), nil
	}
	if err != nil {
		return "", finding.Refusedf("look for the provider's files: %w", err).WithHint("nothing was changed")
	}
	of := secret.Annotations[v1alpha1.FilesOfAnnotation]
	if rec, err := workflow.AskRecord(ctx, client); err == nil && of == "" {
		of = rec.Configuration.Provider
	} else if err != nil && !apierrors.IsNotFound(err) {
		return "", finding.Refusedf("compare with the cluster's record: %w", err).WithHint("nothing was changed")
	}
	if of != provider {
		return LostPerhaps, nil
	}
	return LostNone, nil
}

// leavesProvider tells whether a run of leave has found a provider's manager: another one's files say nothing of this
// one's. A run that has taken up another one may have found no record any more.
func leavesProvider(run *journal.Run, provider string) bool {
	if run.Before == "" {
		return true
	}
	before, err := state.DecodeRecord("the record of before the run", []byte(run.Before))
	return err == nil && before.Configuration.Provider == provider
}

// removedFiles goes by what runs of leave have listed before they removed it. One of a former release has listed
// nothing.
func removedFiles(steps []journal.Step) Lost {
	const secret = "Secret/" + v1alpha1.Namespace + "/" + v1alpha1.CloudConfigName + " removed"
	lost := LostPerhaps
	for _, step := range steps {
		if step.Name != removeObjects().Name || step.Change == "" {
			continue
		}
		if slices.Contains(strings.Split(step.Change, "\n"), secret) {
			return LostAll
		}
		lost = LostNone
	}
	return lost
}
