package network

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A MAC is that of the Node that reports it, of two if both do.
// A control plane without a report is found by its address.
func TestMachines(t *testing.T) {
	agents := []v1alpha1.NodeAgent{agent("w2"), agent("w1"), agent("cp1"), agent("w3")}
	agents[0].Status.Interfaces[0].MAC = "02:00:00:00:00:0A"
	agents[1].Status.Interfaces[0].MAC = "02:00:00:00:00:0a"
	agents[2].Status.Interfaces[0].MAC = "02:00:00:00:00:01"
	planes := []corev1.Node{node("cp1"), node("cp2")}
	for i, address := range []string{"192.0.2.1", "192.0.2.2"} {
		planes[i].Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "x"}, {Type: corev1.NodeInternalIP, Address: address},
		}
	}
	want := &Machines{
		Nodes:      map[string][]string{"02:00:00:00:00:0a": {"w1", "w2"}, "02:00:00:00:00:01": {"cp1"}},
		Unreported: map[string][]string{"cp2": {"192.0.2.2"}},
	}
	if diff := cmp.Diff(want, newMachines(agents, planes)); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
}
