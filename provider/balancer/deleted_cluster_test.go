package balancer

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"
)

// The finalizer of a Service goes when its address is released, and not before: as long as no pass has written that, the
// service controller is to come again.
func TestCluster_DeletedAndStillClaimed(t *testing.T) {
	c := newCluster(t, addressPool("lan", "198.18.0.10-198.18.0.20"))
	c.create("web")
	web := c.within(10*time.Second, "web", func(s *corev1.Service) bool { return address(s) != "" })
	c.end() // no pass any more
	err := c.leader.EnsureLoadBalancerDeleted(t.Context(), "", web)
	if again := (*api.RetryError)(nil); !errors.As(err, &again) {
		t.Errorf("the address is still claimed, and its load balancer counts as deleted: %v", err)
	}
	if claim := c.claimed(address(web)); claim == nil || !claim.Live() {
		t.Error("the claim is not live: nothing is tested")
	}
}
