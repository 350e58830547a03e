package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/network"
)

// A control plane that no agent reports for is asked for by its address, in a cluster that has no agents, too.
func TestClusterReadMachines(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "probe-cp1", Labels: map[string]string{v1alpha1.ControlPlaneLabel: ""},
	}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.90"}}
	nodes := client.CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := nodes.Delete(t.Context(), node.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	reader, err := network.NewReader(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	machines, err := network.ReadMachines(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"198.18.0.90"}, machines.Unreported["probe-cp1"]); diff != "" {
		t.Errorf("addresses of the control plane (-want +got):\n%s", diff)
	}
}
