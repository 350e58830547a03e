package network

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A Node without a network is ruled out; one to whose pods a route is missing goes on announcing, as its agent does.
func TestWhy_NetworkUnavailable(t *testing.T) {
	for reason, want := range map[string]string{"CalicoIsDown": "NetworkUnavailable", "NoRouteCreated": ""} {
		s := shop()
		s.Nodes[1].Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: reason},
		}
		if v := s.Why("shop/web").Nodes[1]; v.Against() != want || v.Eligible != (want == "") {
			t.Errorf("reason %s: got %q, eligible %t, want %q", reason, v.Against(), v.Eligible, want)
		}
	}
}

// Where no Node may have an address, or none announces it, the next step is about the Node that is shown first with the
// rule that is against most.
func TestWhy_Next(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Snapshot)
		want   string
	}{
		{"nothing is against them", func(*Snapshot) {}, "kubectl logs -n kube-system -l app.kubernetes.io/name=ccmadm-node-agent"},
		{"no agents", func(s *Snapshot) { s.Agents = nil }, "nodeAgent: {enabled: true}"},
		{"agents that are silent", func(s *Snapshot) {
			for i := range s.Agents {
				s.Agents[i].Status.RenewTime.Reset()
			}
		}, "-o wide --field-selector spec.nodeName=cp1"},
		{"pods are elsewhere", func(s *Snapshot) {
			s.Services[0].Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}, "kubectl -n shop get pods -o wide"},
		{"another subnet", func(s *Snapshot) {
			for i := range s.Agents {
				s.Agents[i].Status.Interfaces = nil
			}
		}, "name one of the Node's interfaces in AddressPool lan, or give the pool addresses of their subnets|kubectl get nodeagent cp1 -o yaml"},
		{"no session, and one label", func(s *Snapshot) {
			s.Claims[0].Annotations[v1alpha1.ClaimLevelAnnotation] = string(v1alpha1.LevelBGP)
			s.Nodes[1].Labels = map[string]string{v1alpha1.DrainLabel: "true"}
		}, finding.PeerDown.Kind().Do + "|"},
		{"the pool's nodes", func(s *Snapshot) {
			s.Pools[0].Spec.Nodes = &metav1.LabelSelector{MatchLabels: map[string]string{"edge": "yes"}}
		}, "label a Node so that they select it|kubectl get addresspool lan -o yaml"},
		{"one Node, and its label", func(s *Snapshot) {
			s.Nodes, s.Pools[0].Spec.ExcludeLabel = s.Nodes[:1], v1alpha1.ExcludeHonour
		}, "kubectl label node cp1 " + v1alpha1.ExcludeLabel + "-"},
		{"one Node, and ours", func(s *Snapshot) {
			s.Nodes = s.Nodes[1:2]
			s.Nodes[0].Labels = map[string]string{v1alpha1.DrainLabel: "true"}
		}, "kubectl label node w1 " + v1alpha1.DrainLabel + "-"},
		{"labels that somebody wants, and an agent that is silent", func(s *Snapshot) {
			s.Pools[0].Spec.ExcludeLabel = v1alpha1.ExcludeHonour
			for i := range s.Nodes[:len(s.Nodes)-1] {
				s.Nodes[i].Labels = map[string]string{v1alpha1.ExcludeLabel: ""}
			}
			for i := range s.Agents {
				s.Agents[i].Status.RenewTime.Reset()
			}
		}, "kubectl get pods -n kube-system"},
		{"no Node", func(s *Snapshot) { s.Nodes = nil }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := shop()
			s.Agents[1].Status.Announcements = nil
			tt.change(s)
			findings := s.Why("shop/web").Findings
			if len(findings) == 0 {
				t.Error("nothing is found")
			}
			for _, f := range findings {
				if advice := f.Do + "|" + f.Next; !strings.Contains(advice, tt.want) {
					t.Errorf("advice of %s is %q, want %q", f.ID, advice, tt.want)
				}
			}
		})
	}
	s := shop()
	s.Nodes[1].Status.Conditions, s.Services[1].Status.Conditions = nil, []metav1.Condition{{
		Type: v1alpha1.LoadBalancerReady, Status: metav1.ConditionFalse, Reason: finding.NoEligibleNode.Kind().Reason,
	}}
	s.Nodes = s.Nodes[1:2]
	if got := s.Why("shop/db").Findings; len(got) != 1 || got[0].Next != "kubectl describe node w1" {
		t.Errorf("at level NodeIP: %+v", got)
	}
	s.Nodes = shop().Nodes[1:2] // which has no address of the family, say
	if got := s.Why("shop/db").Findings; len(got) != 1 || got[0].Next != "" || got[0].Do != finding.NoEligibleNode.Kind().Do {
		t.Errorf("at level NodeIP, with a Node that is ready: %+v", got)
	}
}
