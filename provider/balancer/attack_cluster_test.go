package balancer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// A tenant and a kubelet try to have the addresses of others published. The honest Service keeps its own throughout.
func TestCluster_AddressesOfOthers(t *testing.T) {
	const vip = "198.18.0.240"
	kubeconfig := fmt.Sprintf("clusters: [{name: default, cluster: {server: 'https://%s:6443'}}]", vip)
	c := newCluster(t, addressPool("lan", "198.18.0.230-198.18.0.250"))
	configMaps := c.client.CoreV1().ConfigMaps(v1alpha1.Namespace)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: evaluation.ProxyName}, Data: map[string]string{proxyKubeconfig: kubeconfig}}
	if _, err := configMaps.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = configMaps.Delete(context.WithoutCancel(t.Context()), evaluation.ProxyName, metav1.DeleteOptions{})
	})
	c.node("n2", "198.18.0.2")
	honest := address(c.within(10*time.Second, c.create("honest").Name, reasonIs(allocator.AnnouncedReason)))
	nodes := func(s *corev1.Service) { s.Annotations[v1alpha1.LevelAnnotation] = string(v1alpha1.LevelNodeIP) }
	c.create("nodes", nodes)
	c.within(10*time.Second, "nodes", hasAddress("198.18.0.1,198.18.0.2"))
	foreign := []string{vip, "198.18.0.1", "203.0.113.7", "10.0.0.1", "192.0.2.9", "127.0.0.1"}
	for i, key := range append(allocator.AddressAnnotations(), "") {
		for j, text := range foreign {
			name := fmt.Sprintf("try-%d-%d", i, j)
			c.create(name, onPort(6443), func(s *corev1.Service) {
				if s.Spec.LoadBalancerIP = text; key != "" {
					s.Annotations[key], s.Spec.LoadBalancerIP = text, ""
				}
				s.Annotations[v1alpha1.AllocatedAnnotation] = text
			})
			s := c.within(10*time.Second, name, func(s *corev1.Service) bool { return allocator.Condition(s) != nil })
			if got := address(s); got != "" {
				t.Errorf("%q: %s is published with %s", key, text, got)
			}
		}
	}
	for _, text := range append(foreign, honest) {
		internal := text
		if text == "203.0.113.7" || text == "192.0.2.9" { // it takes the networks of other Nodes to tell: TestPlausible
			internal = vip
		}
		lie := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q},{"type":"ExternalIP","address":%q}]}}`,
			internal, text)
		if _, err := c.client.CoreV1().Nodes().PatchStatus(t.Context(), "n2", []byte(lie)); err != nil {
			t.Fatal(err)
		}
		c.within(10*time.Second, "nodes", hasAddress("198.18.0.1"))
		time.Sleep(100 * time.Millisecond) // ten passes
		c.within(time.Second, "nodes", hasAddress("198.18.0.1"))
		if got := address(c.within(time.Second, "honest", reasonIs(allocator.AnnouncedReason))); got != honest {
			t.Errorf("the honest Service has %s, and had %s", got, honest)
		}
	}
	if ready := c.poolReady("lan"); ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, vip) {
		t.Errorf("the pool says %s: %s", ready.Status, ready.Message)
	}
	if c.claimed(vip) != nil {
		t.Error("the control plane's address is claimed")
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
