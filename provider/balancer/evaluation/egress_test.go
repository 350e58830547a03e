package evaluation

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

func TestInputs_NoEgress(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.50")
	for _, tt := range []struct {
		name   string
		labels map[string]string
		level  v1alpha1.Level
		want   string
	}{
		{"level L2", map[string]string{v1alpha1.EgressLabel: "true"}, v1alpha1.LevelL2, ""},
		{"no label", nil, v1alpha1.LevelBGP, ""},
		{"switched off", map[string]string{v1alpha1.EgressLabel: "false"}, v1alpha1.LevelBGP, ""},
		{"another value", map[string]string{v1alpha1.EgressLabel: "yes"}, v1alpha1.LevelL2, "its value must be true"},
		{"level BGP", map[string]string{v1alpha1.EgressLabel: "true"}, v1alpha1.LevelBGP, "it needs level L2"},
		{"addresses of Nodes", map[string]string{v1alpha1.EgressLabel: "true"}, v1alpha1.LevelNodeIP, "needs one of level L2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &Inputs{Plan: &allocator.Plan{Claims: map[netip.Addr]*allocator.Claim{address: {Level: tt.level}}}}
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Labels: tt.labels}}
			service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
			as := &allocator.Assignment{Service: service, By: map[bool]netip.Addr{false: address}, NodeIP: tt.level == v1alpha1.LevelNodeIP}
			if got := e.noEgress(as); (got == "") != (tt.want == "") || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	e := &Inputs{Plan: &allocator.Plan{Claims: map[netip.Addr]*allocator.Claim{address: {Level: v1alpha1.LevelL2}}}}
	labelled := &allocator.Assignment{Service: &corev1.Service{}, By: map[bool]netip.Addr{false: address}}
	labelled.Service.Labels = map[string]string{v1alpha1.EgressLabel: "true"}
	labelled.Service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	for _, name := range []string{"w1", "w2", "w3", "w4", "w5"} {
		agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}
		agent.Status.Egress = name == "w1"
		e.Reports.Agents = append(e.Reports.Agents, agent)
	}
	const want = "packets of pods cannot leave with the address on Node/w2, Node/w3, Node/w4, others: see the logs of the node agents"
	if got := e.noEgress(labelled); got != want {
		t.Errorf("with Nodes that cannot: got %q, want %q", got, want)
	}
	as := &allocator.Assignment{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.EgressLabel: "true"}}}}
	if got, want := (&Inputs{}).noEgress(as), "annotation ccmadm.dev/egress has no effect: it is a label"; got != want {
		t.Errorf("as an annotation: got %q, want %q", got, want)
	}
	if got := mistyped(as.Service); got != "" {
		t.Errorf("as an annotation: it is said twice: %q", got)
	}
}
