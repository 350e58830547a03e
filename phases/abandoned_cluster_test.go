package phases

import (
	"context"
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
	if want := "run 1 of the journal was cut short or failed"; !strings.Contains(out, want) {
		t.Errorf("it does not say %q\n%s", want, out)
	}
}

// A rollback that was stopped in its wait is Failed, with nothing left to change: the same rollback closes it, and can be undone then.
func TestCluster_Rollback_ClosesWhatHasFailed(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	run, err := journal.Open(t.Context(), client, journal.Run{Command: "rollback 1", Machine: "cp1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.End(t.Context(), context.Canceled); err != nil {
		t.Fatal(err)
	}
	out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{Command: "rollback 1"})
	if err != nil || changed {
		t.Fatalf("changed %v, %v\n%s", changed, err, out)
	}
	runs, text := phasestest.JournalOf(t)
	if len(runs) != 2 || runs[0].State != journal.Failed || runs[1].State != journal.Done || runs[1].Command != "rollback 1" {
		t.Errorf("the journal says\n%s", text)
	}
	if workflow.LeftOpen(runs, "rollback 1") != nil {
		t.Error("it is open still")
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
			phasestest.AddNode(t, client, "cp2", "192.0.2.12", nil) // a run of one that is gone would be closed
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
