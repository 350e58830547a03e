package phases

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
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
	out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{Command: "apply"})
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

// A run of another machine is not this one's to close, and nothing is known of phases that were not tried.
func TestCluster_Apply_LeavesWhatWasKilled(t *testing.T) {
	for name, tt := range map[string]struct {
		machine string
		list    []workflow.Phase
	}{
		"of another machine":    {machine: "cp2", list: manager.Apply()},
		"preflight was skipped": {machine: "cp1", list: manager.Apply()[1:]},
	} {
		t.Run(name, func(t *testing.T) {
			m := existingtest.Living(t)
			client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
			if _, err := journal.Open(t.Context(), client, journal.Run{Command: "apply", Machine: tt.machine}); err != nil {
				t.Fatal(err)
			}
			phasestest.Abandon(t, client)
			o := workflow.Inputs{Command: "apply", Existing: true}
			r, out := phasestest.Run{Inputs: o}.Must(t, m)
			list := slices.DeleteFunc(tt.list, func(p workflow.Phase) bool { return p.Name == "rollout" })
			if err := r.Do(t.Context(), list); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if runs, text := phasestest.JournalOf(t); len(runs) != 1 || runs[0].State != journal.Begun {
				t.Errorf("the journal says\n%s\n%s", text, out)
			}
		})
	}
}
