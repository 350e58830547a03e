package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/templates"
)

// TestDiagnose_LostPools: who deletes the definition of AddressPool deletes all pools, and Services keep addresses.
func TestDiagnose_LostPools(t *testing.T) {
	allocated := func(s *Snapshot) {
		svc := corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		svc.Namespace, svc.Name = "default", "web"
		svc.Annotations = map[string]string{v1alpha1.AllocatedAnnotation: "192.0.2.4"}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.4"}}
		s.Services = append(s.Services, svc)
	}
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{
			"all gone",
			faults{allocated},
			"there is no AddressPool, and Services have addresses from one: 1, such as default/web",
		},
		{
			"their kind is gone, too: that is why",
			faults{allocated, func(s *Snapshot) {
				s.NoPools, s.Components = true, &components.Seen{Workloads: []components.Workload{{Kind: "DaemonSet", Name: components.NodeAgent}}}
			}},
			"the API server does not know AddressPools, and node agents run: no load balancer gets an address, and none is announced",
		},
		{"one is there", faults{allocated, func(s *Snapshot) { s.Pools = []Pool{{Name: "lan"}} }}, ""},
		{"pools were not seen", faults{allocated, without(partPools)}, ""},
		{"no address was allocated", nil, ""},
		{"the Nodes' own addresses since", faults{allocated, func(s *Snapshot) {
			s.Services[len(s.Services)-1].Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.LoadBalancerReady, Status: metav1.ConditionTrue, Reason: nodeIPReason,
			}}
		}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, f := range Diagnose(newSnapshot(templates.DaemonSet, 3, tt.changes...)).Causes {
				got = append(got, f.Message)
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
