package network

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestCheckRoutes(t *testing.T) {
	s := &Snapshot{Now: now, Nodes: []corev1.Node{node("a"), node("b"), node("c")}, Agents: []v1alpha1.NodeAgent{agent("a"), agent("b"), agent("gone")}}
	for i, cidr := range []string{"10.244.0.0/24", "10.244.1.0/24", "10.244.2.0/24"} {
		s.Nodes[i].Spec.PodCIDRs = []string{cidr}
		s.Nodes[i].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0." + string(rune('1'+i))}}
	}
	s.Reported = []v1alpha1.NodeRoutes{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	s.Reported[0].Routes = []v1alpha1.AgentRoute{
		{Destination: "10.244.1.0/24", Via: "198.18.0.2", Node: "b"},
		{Destination: "10.244.2.0/24", Via: "198.18.0.99", Node: "c"}, // c has another address by now
	}
	s.Reported[1].Problems = []v1alpha1.RouteProblem{
		{Destination: "10.244.0.0/24", Node: "a", Reason: "Foreign", Message: "protocol bird"},
	}
	wanted, found, problems := s.CheckRoutes()
	var got []string
	for _, p := range problems {
		got = append(got, string(p.ID)+" "+p.Object+": "+p.Message)
	}
	want := []string{
		"F7 Node/a: to 10.244.2.0/24, the pods of c",
		"F8 Node/b: to 10.244.0.0/24, the pods of a: protocol bird",
		"F7 Node/b: to 10.244.2.0/24, the pods of c",
		"L10 Node/c: no agent has ever reported from here; routes missing: 2",
	}
	if diff := cmp.Diff(want, got); diff != "" || wanted != 6 || found != 1 {
		t.Errorf("%d of %d routes (-want +got):\n%s", found, wanted, diff)
	}
	s.Agents[0].Status.RenewTime = metav1.NewMicroTime(now.Add(-time.Hour))
	if _, _, problems = s.CheckRoutes(); problems[0].ID != finding.AgentSilent {
		t.Errorf("first problem with a silent agent is %v", problems[0])
	}
}

// A Node whose agent never came up has no routes, where agents set any. Without pods of its own it needs none.
func TestCheckRoutes_AgentThatNeverReported(t *testing.T) {
	s := &Snapshot{Now: now, Nodes: []corev1.Node{node("a"), node("b"), node("virtual")}, Agents: []v1alpha1.NodeAgent{agent("a")}}
	for i, cidr := range []string{"10.244.0.0/24", "10.244.1.0/24"} {
		s.Nodes[i].Spec.PodCIDRs = []string{cidr}
		s.Nodes[i].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0." + string(rune('1'+i))}}
	}
	if wanted, _, problems := s.CheckRoutes(); wanted != 1 || len(problems) != 1 || problems[0].Object != "Node/a" {
		t.Errorf("no agent sets routes: %d are wanted, and the problems are %v", wanted, problems)
	}
	s.Reported = []v1alpha1.NodeRoutes{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}
	s.Reported[0].Routes = []v1alpha1.AgentRoute{{Destination: "10.244.1.0/24", Via: "198.18.0.2", Node: "b"}}
	wanted, found, problems := s.CheckRoutes()
	if wanted != 2 || found != 1 || len(problems) != 1 || problems[0].ID != finding.AgentSilent ||
		problems[0].Object != "Node/b" || problems[0].Message != "no agent has ever reported from here; routes missing: 1" {
		t.Errorf("%d of %d routes, and the problems are %+v", found, wanted, problems)
	}
	b := &s.Nodes[1]
	b.CreationTimestamp = metav1.NewTime(now.Add(-5 * time.Second))
	if wanted, _, problems := s.CheckRoutes(); wanted != 1 || len(problems) > 0 {
		t.Errorf("a Node that has just joined: %d are wanted, %v", wanted, problems)
	}
	b.CreationTimestamp, b.Labels = metav1.Time{}, map[string]string{corev1.LabelOSStable: "windows"}
	if wanted, _, problems := s.CheckRoutes(); wanted != 1 || len(problems) > 0 {
		t.Errorf("a Node that no agent is for: %d are wanted, %v", wanted, problems)
	}
}
