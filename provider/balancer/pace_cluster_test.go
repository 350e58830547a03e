package balancer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/changes"
)

// A tenant changes an EndpointSlice as fast as it can. What no pass reads makes none, and what one reads makes five a second. A
// Service that comes meanwhile has its address, and one that goes waits for no pause.
func TestCluster_EndpointSlicesOfATenant(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.0/26"))
	c.create("web", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	endpoints := c.client.DiscoveryV1().EndpointSlices("default")
	_, err := endpoints.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}, NodeName: new("n1")}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = endpoints.Delete(c.Context(), "web-1", metav1.DeleteOptions{}) }()
	c.within(5*time.Second, "web", reasonIs(allocator.AnnouncedReason))
	patch := func(n int, format string) {
		if _, err := endpoints.Patch(t.Context(), "web-1", types.MergePatchType, fmt.Appendf(nil, format, n), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const lasts = 3 * time.Second
	churn := func(format string, least int) (patches, passes int, took time.Duration) {
		last := c.leader.counts.Load()
		for before := (*counts)(nil); before != last; last = c.leader.counts.Load() { // what came before is over
			before = last
			time.Sleep(time.Second)
		}
		began := time.Now()
		for time.Since(began) < lasts || passes < least && time.Since(began) < time.Minute {
			time.Sleep(5 * time.Millisecond)
			patch(patches, format)
			patches++
			if now := c.leader.counts.Load(); now != last { // each pass has counts of its own
				last = now
				passes++
			}
		}
		return patches, passes, time.Since(began)
	}
	patches, passes, took := churn(`{"metadata":{"annotations":{"n":"%d"}}}`, 0)
	if t.Logf("%d annotations, %d passes", patches, passes); passes > 2+int(took/tick) {
		t.Errorf("%d edits that no pass reads made %d passes in %s", patches, passes, took)
	}
	patches, passes, took = churn(`{"endpoints":[{"addresses":["10.1.0.1"],"nodeName":"n%d"}]}`, 5)
	if t.Logf("%d Nodes, %d passes", patches, passes); passes > changes.MaxRow+int(took/changes.MinPause)+2 || passes < 5 {
		t.Errorf("%d edits made %d passes in %s", patches, passes, took)
	}
	c.create("second")
	c.within(5*time.Second, "second", reasonIs(allocator.AnnouncedReason))
}

// Upstream deletes load balancers one after the other, and each waits for a pass.
func TestCluster_DeletionsInARow(t *testing.T) {
	const count = 30
	c := newCluster(t, addressPool("lan", "192.0.2.0/26"))
	var list []*corev1.Service
	for n := range count {
		list = append(list, c.create(fmt.Sprint("s", n)))
	}
	for n := range count {
		c.within(10*time.Second, fmt.Sprint("s", n), reasonIs(allocator.AnnouncedReason))
	}
	began := time.Now()
	var took []time.Duration
	for _, s := range list {
		before := time.Now()
		if err := c.leader.EnsureLoadBalancerDeleted(t.Context(), "", s); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(before))
	}
	all := time.Since(began)
	slices.Sort(took) // a busy machine is late for some, and only a pause of ours for all but the first of a row
	if t.Logf("%d deleted in %s", count, all); took[changes.MaxRow+2] > changes.MinPause*3/4 {
		t.Errorf("%d load balancers were deleted in %s: %s", count, all, took)
	}
}
