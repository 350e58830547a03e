package adoption

import (
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// What leave removes is in the journal before: a rollback of it knows whether there were files that it has to be given.
func TestCluster_Rollback_LostFiles(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cluster func(*testing.T) (*machine.Machine, kubernetes.Interface)
		want    Lost
	}{
		{"with a configuration", adoptedByOnprem, LostAll},
		{"without one", func(t *testing.T) (*machine.Machine, kubernetes.Interface) {
			m, client := plain(t)
			onprem := config.CloudConfiguration{Provider: "onprem"}
			cutAdoption(t, m, client, workflow.Inputs{Command: "adopt", Operation: &Adoption{Yes: true}, Request: workflow.Request{Flags: onprem}}, Adopt()[:6])
			return m, client
		}, LostNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, client := tt.cluster(t)
			knowAll(t, client, nil) // as nodes that have left
			leave := workflow.Inputs{Command: "leave", Operation: &Adoption{Leave: true, Yes: true}}
			want := func(when string, want Lost) {
				t.Helper()
				runs, _ := phasestest.JournalOf(t)
				if got, err := LostFiles(t.Context(), client, runs, phasestest.Newest(runs), "onprem"); err != nil || got != want {
					t.Errorf("%s: %q, %v, want %q", when, got, err, want)
				}
			}
			if cutAdoption(t, m, client, leave, Leave()[:3]); tt.want == LostAll {
				want("cut short before", LostNone)
			}
			cutAdoption(t, m, client, leave, Leave())
			want("come to its end", tt.want)
		})
	}
}

func TestRemovedFiles(t *testing.T) {
	objects := func(change string) journal.Step { return journal.Step{Name: removeObjects().Name, Change: change} }
	const secret = "Secret/kube-system/ccmadm-cloud-config removed\n"
	for _, tt := range []struct {
		name  string
		steps []journal.Step
		want  Lost
	}{
		{"cut short before", []journal.Step{{Name: manager.RBAC().Name, Change: secret}}, LostPerhaps},
		{"of the former release", []journal.Step{objects("")}, LostPerhaps},
		{"without files", []journal.Step{objects("DaemonSet/kube-system/a removed\n")}, LostNone},
		{"with files", []journal.Step{objects("DaemonSet/kube-system/a removed\n" + secret)}, LostAll},
		{"taken up behind them", []journal.Step{objects("Role/kube-system/a removed\n"), objects(secret)}, LostAll},
	} {
		if got := removedFiles(tt.steps); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestLeavesProvider(t *testing.T) {
	rec := &state.Record{}
	rec.Configuration.Provider, rec.Configuration.Mode = "sample", config.ModeStaticPod
	rec.APIVersion, rec.Kind = v1alpha1.APIVersion, state.RecordKind
	before, err := rec.Encode()
	if err != nil {
		t.Fatal(err)
	}
	run := &journal.Run{Command: "leave", Before: string(before)}
	if !leavesProvider(run, "sample") || leavesProvider(run, "onprem") {
		t.Error("a run that has left sample has left sample, and not onprem")
	}
	if !leavesProvider(&journal.Run{Command: "leave"}, "onprem") {
		t.Error("a run that found no record may have left any")
	}
}
