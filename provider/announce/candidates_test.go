package announce

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestView_SetCandidates_NoAgent has a Node whose report was deleted, as it sees itself and as another sees it.
func TestView_SetCandidates_NoAgent(t *testing.T) {
	agent := &v1alpha1.NodeAgent{Status: v1alpha1.NodeAgentStatus{
		Interfaces: []v1alpha1.AgentInterface{{Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{"192.0.2.11/24"}}},
	}}
	for _, tt := range []struct {
		name  string
		self  string
		level v1alpha1.Level
		want  []string
	}{
		{name: "BGP, on the Node", self: "w1", level: v1alpha1.LevelBGP, want: []string{"w1", "w2"}},
		{name: "BGP, on another", self: "w2", level: v1alpha1.LevelBGP, want: []string{"w2"}},
		{name: "L2, on the Node", self: "w1", level: v1alpha1.LevelL2, want: []string{"w2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			view := &View{Node: tt.self, Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{"w2": agent}}
			for _, name := range []string{"w1", "w2"} {
				view.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			}
			view.Claims = []Claim{{Address: netip.MustParseAddr("192.0.2.50"), Level: tt.level}}
			view.SetCandidates(Endpoints{})
			if diff := cmp.Diff(tt.want, view.Claims[0].Candidates); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A Node without a network gives its addresses away; one to whose pods a route is missing does not.
func TestLeaving_NetworkUnavailable(t *testing.T) {
	for reason, want := range map[string]bool{"CalicoIsDown": true, "NoRouteCreated": false} {
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: reason},
		}}}
		if got := leaving(node); got != want {
			t.Errorf("reason %s: got %v, want %v", reason, got, want)
		}
	}
}
