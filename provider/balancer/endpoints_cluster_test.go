package balancer

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// The order of upstream's tests, of operators and of `helm --wait`: the Service, its address, then a pod. Afterwards the last
// pod goes, and another one comes. The address stays, and the condition says what is missing.
func TestCluster_AddressBeforeEndpoint(t *testing.T) {
	atBGP := func(p *v1alpha1.AddressPool) *v1alpha1.AddressPool {
		p.Spec.Level = v1alpha1.LevelBGP
		return p
	}
	for _, tt := range []struct {
		name            string
		pool            *v1alpha1.AddressPool // nil: level NodeIP
		waits, answered string                // the addresses without an endpoint, and with one on n1
		ready           string
	}{
		{"BGP", atBGP(addressPool("lan", "192.0.2.50")), "192.0.2.50", "192.0.2.50", allocator.AnnouncedReason},
		{"NodeIP", nil, "198.18.0.1,198.18.0.2", "198.18.0.1", allocator.NodeIPReason},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var pools []*v1alpha1.AddressPool
			if tt.pool != nil {
				pools = append(pools, tt.pool)
			}
			c := newCluster(t, pools...)
			c.node("n2", "198.18.0.2")
			c.silent.Store(true)
			c.create("web", func(s *corev1.Service) {
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			})
			s := c.within(5*time.Second, "web", hasAddress(tt.waits))
			if status, err := c.leader.EnsureLoadBalancer(t.Context(), "", s, nil); err != nil || len(status.Ingress) == 0 {
				t.Errorf("EnsureLoadBalancer: %v, %v", status, err)
			}
			for range 2 {
				c.within(evaluation.AnnounceTime+5*time.Second, "web", reasonIs("NoReadyEndpoint"))
				c.endpoint("web", "n1", true)
				c.within(5*time.Second, "web", reasonIs(tt.ready))
				c.within(5*time.Second, "web", hasAddress(tt.answered))
				c.endpoint("web", "n1", false)
			}
			s = c.within(evaluation.AnnounceTime+5*time.Second, "web", reasonIs("NoReadyEndpoint"))
			if got := address(s); got != tt.waits {
				t.Errorf("without an endpoint again it has %q", got)
			}
			if told := c.told(); strings.Contains(told, "Warning") {
				t.Errorf("Events: %s", told)
			}
		})
	}
}

// endpoint makes, or removes, the one endpoint of a Service. The agent announces the Service's address as long as it is there.
func (c *cluster) endpoint(service, node string, there bool) {
	c.Helper()
	slices := c.client.DiscoveryV1().EndpointSlices("default")
	_ = slices.Delete(c.Context(), service, metav1.DeleteOptions{})
	if there {
		c.Cleanup(func() { _ = slices.Delete(context.Background(), service, metav1.DeleteOptions{}) })
		_, err := slices.Create(c.Context(), &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.7"}, NodeName: &node}},
		}, metav1.CreateOptions{})
		if err != nil {
			c.Fatal(err)
		}
	}
	c.silent.Store(!there)
}

// Upstream writes the addresses that it is given, and nothing else: it gets none as long as the Service lacks our condition,
// by which the policy about the Nodes' ports knows whose addresses they are.
func TestCluster_EnsureAfterCondition(t *testing.T) {
	c := newCluster(t)
	c.node("n2", "198.18.0.2")
	c.create("web")
	s := c.within(5*time.Second, "web", func(s *corev1.Service) bool { return address(s) != "" && allocator.Condition(s) != nil })
	c.end() // else the next pass writes it again
	c.leader.mu.Lock()
	c.leader.statuses[allocator.NameOf(s)] = &evaluation.Status{Service: s, After: s, Complete: true}
	c.leader.mu.Unlock()
	cache := c.leader.caches.services.GetStore()
	bare := s.DeepCopy()
	bare.Status.Conditions = nil
	if err := cache.Update(bare); err != nil {
		t.Fatal(err)
	}
	if status, err := c.leader.EnsureLoadBalancer(t.Context(), "", s, nil); err == nil {
		t.Errorf("without the condition it returns %v", status)
	}
	if err := cache.Update(s); err != nil {
		t.Fatal(err)
	}
	if status, err := c.leader.EnsureLoadBalancer(t.Context(), "", s, nil); err != nil || len(status.Ingress) == 0 {
		t.Errorf("with the condition: %v, %v", status, err)
	}
}
