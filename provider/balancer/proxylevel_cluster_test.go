package balancer

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Level Proxy against a real API server, which has to take the mode of addresses and the level of pools.
func TestCluster_ProxyLevel(t *testing.T) {
	c := newCluster(t, proxyPool("lan", "192.0.2.50-192.0.2.59"))
	c.create("web", annotated(v1alpha1.ProxyProtocolAnnotation, v1alpha1.ProxyProtocolV2))
	s := c.within(5*time.Second, "web", reasonIs(announcedReason))
	if address(s) == "" || mode(s) != corev1.LoadBalancerIPModeProxy {
		t.Errorf("got status %+v, want an address with mode Proxy", s.Status.LoadBalancer)
	}
	if level := c.claimed(address(s)).level; level != v1alpha1.LevelProxy {
		t.Errorf("its claim is of level %q", level)
	}
	c.create("signals", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolSCTP })
	if got := address(c.within(5*time.Second, "signals", reasonIs("LevelLacks"))); got != "" {
		t.Errorf("%s is published for SCTP", got)
	}
	if told := c.told(); !strings.Contains(told, "LevelLacks port 80/SCTP: level Proxy") {
		t.Errorf("Events: %s", told)
	}
	c.patch("web", `{"spec":{"ports":[{"name":"web","port":80},{"name":"names","port":53,"protocol":"UDP"}]}}`)
	after := c.within(5*time.Second, "web", reasonIs("LevelLacks"))
	if address(after) != address(s) || mode(after) != corev1.LoadBalancerIPModeProxy {
		t.Errorf("got status %+v, want that of before", after.Status.LoadBalancer)
	}
}
