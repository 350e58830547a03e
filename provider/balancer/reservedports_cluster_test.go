package balancer

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A tenant says ccmadm.dev/node-ports: any. It gets no reserved port until the administrator labels the Namespace, and loses it
// with the label.
func TestCluster_ReservedPorts(t *testing.T) {
	c := newCluster(t)
	label := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata":{"labels":{"` + v1alpha1.PortsLabel + `":` + value + `}}}`)
		_, err := c.client.CoreV1().Namespaces().Patch(context.WithoutCancel(t.Context()), "default", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { label("null") })
	c.create("ssh", onPort(22), annotated(v1alpha1.PortsAnnotation, "any"))
	if s := c.within(5*time.Second, "ssh", reasonIs("PortReserved")); address(s) != "" {
		t.Errorf("a tenant has port 22 of %s", address(s))
	}
	label(`"allow"`)
	c.within(15*time.Second, "ssh", hasAddress("198.18.0.1"))
	label("null")
	c.within(15*time.Second, "ssh", func(s *corev1.Service) bool { return address(s) == "" && reasonIs("PortReserved")(s) })
}
