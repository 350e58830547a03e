package phases

import (
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// An apply that was killed does not stay Begun behind one that found nothing to change.
func TestCluster_Apply_ClosesWhatWasKilled(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	if _, err := journal.Open(t.Context(), client, journal.Run{Command: "apply", Machine: "cp1"}); err != nil {
		t.Fatal(err)
	}
	phasestest.Abandon(t, client)
	out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Options{Command: "apply"})
	if err != nil || changed {
		t.Fatalf("changed %v, %v\n%s", changed, err, out)
	}
	runs, text := phasestest.JournalOf(t)
	if len(runs) != 2 || runs[0].State != journal.CutShort || runs[1].State != journal.Done {
		t.Errorf("the journal says\n%s", text)
	}
	if want := "run 1 of the journal was cut short"; !strings.Contains(out, want) {
		t.Errorf("it does not say %q\n%s", want, out)
	}
}
