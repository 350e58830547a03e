package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/agreement"
	"github.com/ccmadm/ccmadm/templates"
)

// byServer has the API server say when a kubelet has written its Lease, and the kubelet, which time that was to it.
func byServer(i int, when, ahead time.Duration) func(*Snapshot) {
	return func(s *Snapshot) {
		l := &s.Heartbeats[i]
		l.Spec.RenewTime.Time = taken.Add(when + ahead + time.Second/2)
		l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &metav1.Time{Time: taken.Add(when)}}}
	}
}

// TestDiagnose_Clocks: a kubelet whose clock is off is not silent, and one that is silent has no clock.
func TestDiagnose_Clocks(t *testing.T) {
	for _, tt := range []struct {
		name     string
		changes  faults
		want     string
		severity string
	}{
		{"right", faults{byServer(1, -5*time.Second, 0)}, "", ""},
		{"some seconds off", faults{byServer(1, -5*time.Second, -20*time.Second)}, "", ""},
		{"three minutes behind", faults{byServer(1, -5*time.Second, -200*time.Second)}, "K7(1)", "warning"},
		{"ten minutes ahead", faults{byServer(1, -5*time.Second, 10*time.Minute)}, "K7(1)", "error"},
		{"silent by the API server's clock", faults{byServer(1, -3*time.Minute, 0)}, "W14(1)", "error"},
		{"all of them by a clock of ours that is ahead", faults{late(0), late(1), late(2), late(3)}, "", ""},
		{"silent, by the others", faults{late(0), byServer(1, -8*time.Minute, 0), late(2), late(3)}, "W14(1)", "error"},
		{"silent, and its clock was ahead", faults{byServer(1, -3*time.Minute, 3*time.Minute)}, "W14(1)", "error"},
		{"behind, and who wrote it is not told", faults{heard(1, -200*time.Second)}, "W14(1)", "error"},
		{
			"the machine says so itself",
			faults{byServer(1, -5*time.Second, -200*time.Second), onMachine(-200)},
			"K7(1)", "warning",
		},
		{
			"behind, so that a certificate has not begun",
			faults{onMachine(-600, HostCertificate{File: "/c", Begin: taken.Add(time.Minute), End: taken.Add(900 * time.Hour)})},
			"K7(1)>K5(1)", "error",
		},
		{
			"behind, and another certificate has ended",
			faults{onMachine(-600, HostCertificate{File: "/c", Begin: taken.Add(-900 * time.Hour), End: taken.Add(-time.Hour)})},
			"K7(1) K5(1)", "error",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			if got := words(d); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if len(d.Causes) > 0 && string(d.Causes[0].Severity) != tt.severity {
				t.Errorf("got %s, want %s", d.Causes[0].Severity, tt.severity)
			}
		})
	}
}

// late has the API server say that a kubelet was heard seven minutes ago.
func late(i int) func(*Snapshot) { return byServer(i, -7*time.Minute, 0) }

// onMachine is what w1 shows of its clock, so many seconds ahead, and its certificates.
func onMachine(ahead float64, certificates ...HostCertificate) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Host = &Host{
			Name: "w1", Node: "w1", Unit: &HostUnit{Load: "loaded", Active: "active", PID: 700},
			Clock: &HostClock{Server: "https://x", Ahead: ahead}, Certificates: certificates,
		}
	}
}

// Where most machines differ from the API server, it is not said that they are wrong.
func TestDiagnose_ClockOfTheAPIServer(t *testing.T) {
	for doubt, changes := range map[string]faults{
		"": {byServer(0, 0, 0), byServer(1, 0, -time.Hour), byServer(2, 0, 0), byServer(3, 0, 0)},
		"the API server's clock may be wrong": {
			byServer(0, 0, 0), byServer(1, 0, -time.Hour), byServer(2, 0, -time.Hour), byServer(3, 0, -time.Hour),
		},
	} {
		d := Diagnose(newSnapshot(templates.Deployment, 3, changes...))
		if len(d.Causes) != 1 || strings.Contains(d.Causes[0].Message, "may be") != (doubt != "") ||
			!strings.Contains(d.Causes[0].Message, doubt) {
			t.Errorf("want one cause with %q, got %+v", doubt, d.Causes)
		}
	}
}

// TestDiagnose_ClockOfOneAPIServer: kubelets whose own time is right are not to blame for the time that an API server writes.
func TestDiagnose_ClockOfOneAPIServer(t *testing.T) {
	told := flags("external")
	all := func(s *Snapshot) {
		for i := range s.Nodes {
			byServer(i, -5*time.Second, 0)(s)
		}
	}
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
		object  string
	}{
		{"a kubelet renews there", faults{all, told, byServer(1, -95*time.Second, 90*time.Second)}, "K7(1)", "Service/default/kubernetes"},
		{"ahead", faults{all, told, byServer(1, 85*time.Second, -90*time.Second)}, "K7(1)", "Service/default/kubernetes"},
		{
			"its own kubelet as well",
			faults{all, told, byServer(1, -95*time.Second, 90*time.Second), byServer(0, -95*time.Second, 0)},
			"K7(1)", "Node/cp1",
		},
		{"the kubelet's own clock", faults{all, told, byServer(1, -5*time.Second, -90*time.Second)}, "K7(1)", "Node/w1"},
		{"our clock goes with one kubelet's only", faults{told, late(0), byServer(1, -7*time.Minute, 7*time.Minute), late(2), late(3)}, "K7(1)", "Node/w1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			if got := words(d); got != tt.want || d.Causes[0].Object != tt.object {
				t.Errorf("got %s, want %s of %s: %+v", got, tt.want, tt.object, d.Causes)
			}
		})
	}
}

// TestDiagnose_UnreachedKubelets: what none of several answers is the API server's trouble, and nothing is known of the kubelets then.
func TestDiagnose_UnreachedKubelets(t *testing.T) {
	unreachedBy := func(node string) string {
		return "50 of 50 kubelets did not answer, such as " + node + ": error trying to reach service: dial tcp 10.9.0.1:10250: connect: no route to host"
	}
	many := func(s *Snapshot) {
		for i := range 60 {
			n, l := s.Nodes[1].DeepCopy(), s.Heartbeats[1].DeepCopy()
			n.Name = fmt.Sprintf("edge-%02d", i)
			n.Spec.ProviderID += n.Name
			l.Name, n.Status.Addresses = n.Name, []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.9.0.%d", i+1)}}
			s.Nodes, s.Heartbeats = append(s.Nodes, *n), append(s.Heartbeats, *l)
		}
	}
	for _, tt := range []struct {
		name   string
		seen   NotSeen
		change func(*Snapshot)
		want   string
		blind  bool
	}{
		{
			"no way",
			NotSeen{Message: "4 of 4 kubelets did not answer, such as cp1: error trying to reach service: dial tcp 198.18.0.10:10250: i/o timeout"},
			nil, "T4(1)", true,
		},
		{"its certificate", NotSeen{Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized"}, nil, "T4(1)", true},
		{"we may not ask", NotSeen{Reason: metav1.StatusReasonForbidden, Message: "nodes is forbidden"}, nil, "", false},
		{"they have no such page", NotSeen{Reason: metav1.StatusReasonNotFound, Message: "4 of 4 kubelets did not answer, such as cp1: not found"}, nil, "", false},
		{"they are not to tell", NotSeen{Reason: metav1.StatusReasonMethodNotAllowed, Message: "4 of 4 kubelets did not answer, such as cp1: 405"}, nil, "", false},
		{"too many to ask all, and control planes are among them", NotSeen{Message: unreachedBy("cp1")}, many, "T4(1)", true},
		{"too many to ask all, and those of one site were", NotSeen{Message: unreachedBy("edge-00")}, many, "", true},
		{"it took too long", NotSeen{Reason: metav1.StatusReasonTimeout, Message: "context deadline exceeded"}, nil, "", true},
		{"one of several", NotSeen{Message: "1 of 4 kubelets did not answer, such as w1: error trying to reach service: dial tcp 198.18.0.10:10250: i/o timeout"}, func(s *Snapshot) {
			s.Settings.Kubelets = map[string]agreement.Kubelet{"w2": {}}
			s.Answers.Unreached = map[string]string{"w1": "dial tcp 198.18.0.10:10250: i/o timeout"}
		}, "T4(1)", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.seen.What = partKubelets
			d := Diagnose(newSnapshot(templates.Deployment, 3, func(s *Snapshot) {
				s.NotSeen = []NotSeen{tt.seen}
				if tt.change != nil {
					tt.change(s)
				}
			}))
			if got := words(d); got != tt.want || d.Blind() != tt.blind {
				t.Errorf("got %s, blind %v, want %s, %v", got, d.Blind(), tt.want, tt.blind)
			}
			if tt.want != "" && tt.blind && !strings.Contains(d.Causes[0].Next, "/nodes/cp1/") {
				t.Errorf("next: %s", d.Causes[0].Next)
			}
		})
	}
}

// TestKubeletsToAsk: names follow pools and sites, so the first of many are no sample.
func TestKubeletsToAsk(t *testing.T) {
	s := newSnapshot(templates.Deployment, 100)
	few := kubeletsToAsk(s.Nodes[:4])
	if want := []string{"cp1", "w1", "w2", "w3"}; !slices.Equal(few, want) {
		t.Errorf("got %v, want %v", few, want)
	}
	s.Nodes[100].Labels = map[string]string{v1alpha1.ControlPlaneLabel: ""}
	s.Nodes[1].Status.Conditions[0].Status = corev1.ConditionFalse
	s.Nodes[2].Labels = map[string]string{"type": "virtual-kubelet"}
	got := kubeletsToAsk(s.Nodes)
	if len(got) != agreement.MostKubelets || !slices.Equal(got[:2], []string{"cp1", "w100"}) || !slices.Contains(got, "w97") {
		t.Errorf("got %v", got)
	}
	for _, name := range []string{"w1", "w2"} {
		if slices.Contains(got, name) {
			t.Errorf("%s is asked", name)
		}
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(got))); len(unique) != len(got) {
		t.Errorf("some are asked twice: %v", got)
	}
}
