package provider

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// plane is the control plane that all tests share whose name starts with TestCluster; -short leaves those out.
var plane *manifeststest.ControlPlane

// listed is an inventory of two machines.
const listed = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1}
machines:
- {id: r1, hostname: w1, zone: ber-b, rack: r12, labels: {example.com/disk: nvme}}
- {id: r2, hostname: w2}
`

// registered is the Node of a kubelet that has just registered.
func registered(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key:    v1alpha1.UninitializedTaint,
			Effect: corev1.TaintEffectNoSchedule,
		}}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.2"}}},
	}
}

func unlimited(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.QPS = -1
	return c
}

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }
