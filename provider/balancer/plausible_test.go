package balancer

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What kubelets say of their Nodes: what is somebody else's is not published for a Service.
func TestPlausible(t *testing.T) {
	node := func(name string, age time.Duration, pods string, addresses ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-age))}}
		n.Spec.PodCIDRs = []string{pods, "no range"}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
		for _, a := range addresses {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: a})
		}
		return n
	}
	honest := node("honest", time.Hour, "10.244.1.0/24", "192.0.2.11", "2001:db8::11")
	liar := node("liar", time.Minute, "192.0.2.0/24",
		"192.0.2.12", "10.96.0.1", "::ffff:10.96.0.2", "fd00:96::1", "203.0.113.7", "10.244.1.5")
	cidrs := []*networkingv1.ServiceCIDR{{}}
	cidrs[0].Spec.CIDRs = []string{"10.96.0.0/12", "fd00:96::/112"}
	claims := []*claim{{address: netip.MustParseAddr("203.0.113.7")}}
	got := map[string][]string{}
	for _, n := range plausible([]*corev1.Node{liar, honest}, cidrs, claims) {
		for _, a := range n.Status.Addresses {
			got[n.Name] = append(got[n.Name], a.Address)
		}
	}
	want := map[string][]string{"honest": {"honest", "192.0.2.11", "2001:db8::11"}, "liar": {"liar", "192.0.2.12"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(liar.Status.Addresses) != 7 {
		t.Error("the cache's Node was changed")
	}
}

// A cluster IP that a kubelet calls its own is no Service's address.
func TestCluster_NodeIPOfAClusterIP(t *testing.T) {
	c := newCluster(t)
	c.create("web")
	c.within(10*time.Second, "web", hasAddress("198.18.0.1"))
	lie := []byte(`{"status":{"addresses":[
		{"type":"InternalIP","address":"198.18.0.1"},{"type":"ExternalIP","address":"10.0.0.1"}]}}`)
	if _, err := c.client.CoreV1().Nodes().PatchStatus(t.Context(), "n1", lie); err != nil {
		t.Fatal(err)
	}
	c.node("n2", "198.18.0.2") // once its address is there, the other's was looked at
	c.within(10*time.Second, "web", hasAddress("198.18.0.1,198.18.0.2"))
}
