package balancer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// What was held is given back, once, and what others hold is left alone. Services come to no harm by it: when load
// balancers are on again, they have the addresses that they had.
func TestCluster_Release(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.60"))
	finalized := func(s *corev1.Service) {
		s.Finalizers = []string{helpers.LoadBalancerCleanupFinalizer, "example.com/theirs"}
	}
	class := func(s *corev1.Service) { s.Spec.LoadBalancerClass = new(v1alpha1.LoadBalancerClass) }
	c.create("web", finalized)
	had := address(c.within(5*time.Second, "web", reasonIs(allocator.AnnouncedReason)))
	c.create("ours", class)
	c.within(5*time.Second, "ours", reasonIs(allocator.AnnouncedReason))
	c.end()
	c.create("theirs", finalized)
	services := c.client.CoreV1().Services("default")
	if err := services.Delete(t.Context(), "ours", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.within(time.Second, "ours", func(s *corev1.Service) bool { return s.DeletionTimestamp != nil })

	var version string
	for range 2 {
		if err := Release(t.Context(), c.client); err != nil {
			t.Fatal(err)
		}
		web := c.within(time.Second, "web", hasAddress(had))
		if allocator.Condition(web) != nil || len(web.Finalizers) != 1 || web.Finalizers[0] != "example.com/theirs" {
			t.Errorf("condition %v, finalizers %v", allocator.Condition(web), web.Finalizers)
		}
		if version != "" && version != web.ResourceVersion {
			t.Error("the second time it is written again")
		}
		version = web.ResourceVersion
	}
	if _, err := services.Get(t.Context(), "ours", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the deleted one is there still: %v", err)
	}
	if theirs := c.within(time.Second, "theirs", hasAddress("")); len(theirs.Finalizers) != 2 {
		t.Errorf("somebody else's finalizers are %v", theirs.Finalizers)
	}
	claims, err := c.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{LabelSelector: ourClaims})
	if err != nil || len(claims.Items) > 0 {
		t.Errorf("claims that are left: %v, %v", claims.Items, err)
	}
	patch := []byte(`{"spec":{"disabled":true}}`)
	_, err = c.objects.AddressPools.Patch(t.Context(), "lan", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.lead()
	c.within(5*time.Second, "web", func(s *corev1.Service) bool {
		return reasonIs(allocator.AnnouncedReason)(s) && address(s) == had
	})
}

// What we have said of a Service goes when it is of another type, also where its load balancer was deleted before a
// pass has seen that.
func TestCluster_Forgotten(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.60"))
	c.create("web")
	s := c.within(5*time.Second, "web", reasonIs(allocator.AnnouncedReason))
	if err := c.leader.EnsureLoadBalancerDeleted(t.Context(), "", s); err != nil {
		t.Fatal(err)
	}
	c.patch("web", `{"spec":{"type":"ClusterIP"}}`)
	c.within(5*time.Second, "web", func(s *corev1.Service) bool { return allocator.Condition(s) == nil })
}
