package balancer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A report that only says that the agent lives needs no pass. The addresses that Nodes may have come from the interfaces of all.
func TestAgentMatters(t *testing.T) {
	type status = v1alpha1.NodeAgentStatus
	before := &v1alpha1.NodeAgent{Status: status{Interfaces: []v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{"192.0.2.1/24"}}}}}
	for _, tt := range []struct {
		name   string
		change func(*status)
		want   bool
	}{
		{name: "it lives", change: func(s *status) { s.RenewTime = metav1.NowMicro() }},
		{name: "without interfaces", change: func(s *status) { s.Interfaces = nil }, want: true},
		{name: "another address", change: func(s *status) { s.Interfaces[0].Addresses = []string{"192.0.2.2/24"} }, want: true},
		{name: "a port", change: func(s *status) { s.Listening = []string{"tcp/80"} }, want: true},
		{name: "a router", change: func(s *status) { s.Gateways = []string{"192.0.2.254"} }, want: true},
	} {
		after := before.DeepCopy()
		tt.change(&after.Status)
		if got := agentMatters(before, after); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}
