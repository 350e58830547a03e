package announce

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// BenchmarkView_SetCandidates has 300 addresses of a pool that selects Nodes, and 1,000 Nodes.
func BenchmarkView_SetCandidates(b *testing.B) {
	for _, level := range []v1alpha1.Level{v1alpha1.LevelL2, v1alpha1.LevelBGP} {
		b.Run(string(level), func(b *testing.B) {
			edge := metav1.LabelSelector{MatchLabels: map[string]string{"edge": "true"}}
			pool := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Nodes: &edge}}
			v := &View{Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{}}
			v.Pools = map[string]*v1alpha1.AddressPool{"lan": pool}
			for n := range 1000 {
				name := fmt.Sprintf("w%d", n)
				v.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: edge.MatchLabels}}
				v.Agents[name] = &v1alpha1.NodeAgent{Status: v1alpha1.NodeAgentStatus{Interfaces: []v1alpha1.AgentInterface{
					{Name: "eth0", MAC: "02:00:00:00:00:01", Addresses: []string{"192.0.2.11/23"}},
				}}}
			}
			for n := range 300 {
				address := netip.AddrFrom4([4]byte{192, 0, 2 + byte(n>>8), byte(n)})
				v.Claims = append(v.Claims, Claim{Address: address, Level: level, Pool: "lan"})
			}
			for b.Loop() {
				v.SetCandidates(Endpoints{})
			}
		})
	}
}
