package diagnosis

import (
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/templates"
)

// What was not seen, and what a clock or an ID does not decide, is no finding.
func TestDiagnose_InDoubt(t *testing.T) {
	for _, tt := range []struct {
		name    string
		changes []func(*Snapshot)
		want    string
	}{
		{"pods of the manager's namespace not seen: no word that there are none", []func(*Snapshot){
			tainted, leaderless, elsewhere, without(podsIn("ccm")),
		}, "W13(1) W6(11)"},
		{"workloads not seen: no word that there is no manager", []func(*Snapshot){
			tainted, leaderless, func(s *Snapshot) { s.Pods = nil }, without(partDeployments),
		}, "W13(1) W6(11)"},
		{"one machine's clock is ahead: the others are not silent", []func(*Snapshot){heard(3, 2*time.Minute)}, ""},
		{"one of two machines' clock is ahead", []func(*Snapshot){two, heard(1, 2*time.Minute)}, ""},
		{"one of two kubelets is silent", []func(*Snapshot){two, heard(1, -time.Minute)}, "W14(1)"},
		{"two machines of one image, one of which is started again", []func(*Snapshot){
			renamed, heard(2, -2*time.Minute),
		}, "W14(1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := words(Diagnose(newSnapshot(templates.Deployment, 10, tt.changes...))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// elsewhere has the manager in a namespace of its own.
func elsewhere(s *Snapshot) {
	s.Deployments[0].Namespace = "ccm"
	s.Pods = nil
}

// two leaves the control plane and one worker.
func two(s *Snapshot) { s.Nodes, s.Heartbeats = s.Nodes[:2], s.Heartbeats[:2] }

// heard has a kubelet say when it has renewed its Lease last.
func heard(i int, when time.Duration) func(*Snapshot) {
	return func(s *Snapshot) { s.Heartbeats[i].Spec.RenewTime.Time = taken.Add(when) }
}
