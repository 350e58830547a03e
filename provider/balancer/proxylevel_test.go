package balancer

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func proxyPool(name string, ranges ...string) *v1alpha1.AddressPool {
	p := addressPool(name, ranges...)
	p.Spec.Level = v1alpha1.LevelProxy
	return p
}

func withPort(number int32, protocol corev1.Protocol) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: number, Protocol: protocol})
	}
}

func (w *world) web() *corev1.Service {
	return w.services[types.NamespacedName{Namespace: "default", Name: "web"}]
}

// mode is that of the only address.
func mode(s *corev1.Service) corev1.LoadBalancerIPMode {
	if list := s.Status.LoadBalancer.Ingress; len(list) == 1 && list[0].IPMode != nil {
		return *list[0].IPMode
	}
	return ""
}

// What level Proxy does not have is said before anything is published, and so is the PROXY protocol at other levels.
func TestProxyLevel_Refuses(t *testing.T) {
	v2 := annotated(v1alpha1.ProxyProtocolAnnotation, "v2")
	for _, tt := range []struct {
		name    string
		level   v1alpha1.Level
		service []func(*corev1.Service)
		want    string // in the condition; empty: published
	}{
		{name: "TCP", level: v1alpha1.LevelProxy},
		{name: "with a header", level: v1alpha1.LevelProxy, service: []func(*corev1.Service){v2}},
		{
			name: "UDP beside TCP", level: v1alpha1.LevelProxy,
			service: []func(*corev1.Service){withPort(53, corev1.ProtocolUDP)}, want: "port 53/UDP: level Proxy",
		},
		{
			name: "SCTP", level: v1alpha1.LevelProxy,
			service: []func(*corev1.Service){withPort(3868, corev1.ProtocolSCTP)}, want: "port 3868/SCTP: level Proxy",
		},
		{
			name: "another version", level: v1alpha1.LevelProxy,
			service: []func(*corev1.Service){annotated(v1alpha1.ProxyProtocolAnnotation, "v1")}, want: `"v1" is not v2`,
		},
		{name: "a header at level L2", level: v1alpha1.LevelL2, service: []func(*corev1.Service){v2}, want: "level L2"},
		{name: "a header at level BGP", level: v1alpha1.LevelBGP, service: []func(*corev1.Service){v2}, want: "level BGP"},
		{
			name: "a header at level NodeIP", level: v1alpha1.LevelProxy,
			service: []func(*corev1.Service){v2, annotated(v1alpha1.LevelAnnotation, "NodeIP")}, want: "level NodeIP",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(addressPool("lan", "192.0.2.1"))
			w.pools[0].Spec.Level = tt.level
			w.setNodes("198.18.0.1")
			w.add("web", tt.service...)
			for range 3 {
				w.told("192.0.2.1")
			}
			s := w.web()
			said := condition(s)
			if tt.want == "" {
				if w.has("web") != "192.0.2.1" || said == nil || said.Reason != announcedReason {
					t.Errorf("published %q, condition %+v", w.has("web"), said)
				}
				return
			}
			if said == nil || said.Reason != "LevelLacks" || !strings.Contains(said.Message, tt.want) {
				t.Errorf("got condition %+v, want LevelLacks with %q", said, tt.want)
			}
			if got := w.has("web"); got != "" {
				t.Errorf("%s is published", got)
			}
		})
	}
}

// kube-proxy leaves an address of level Proxy alone, but not before an agent says that it carries it: agents of before
// go on announcing what they know.
func TestProxyLevel_Mode(t *testing.T) {
	w := newWorld(proxyPool("lan", "192.0.2.1"))
	w.setNodes("198.18.0.1")
	w.add("web")
	w.older = true
	for range 3 {
		w.told("192.0.2.1")
	}
	if got := w.has("web"); got != "" {
		t.Errorf("agents of before: %s is published", got)
	}
	w.older = false
	for range 2 {
		w.told("192.0.2.1")
	}
	if got := mode(w.web()); got != corev1.LoadBalancerIPModeProxy {
		t.Errorf("an agent carries it: got mode %q", got)
	}
	w.told()
	if got := mode(w.web()); got != corev1.LoadBalancerIPModeProxy {
		t.Errorf("nobody announces it for a moment: got mode %q", got)
	}
	w.pools[0].Spec.Level = v1alpha1.LevelL2
	for range 2 {
		w.told("192.0.2.1")
	}
	if got := mode(w.web()); got != corev1.LoadBalancerIPModeVIP {
		t.Errorf("the pool is of level L2 now: got mode %q", got)
	}
	w.pools[0].Spec.Level, w.older = v1alpha1.LevelProxy, true
	for range 2 {
		w.told("192.0.2.1")
	}
	if got := mode(w.web()); got != corev1.LoadBalancerIPModeVIP {
		t.Errorf("of level Proxy again, with agents of before: got mode %q", got)
	}
}

// A port of UDP that comes later costs the condition, and not the address.
func TestProxyLevel_PublishedStays(t *testing.T) {
	w := newWorld(proxyPool("lan", "192.0.2.1"))
	w.setNodes("198.18.0.1")
	w.add("web")
	for range 2 {
		w.told("192.0.2.1")
	}
	withPort(53, corev1.ProtocolUDP)(w.web())
	w.told("192.0.2.1")
	if said := condition(w.web()); w.has("web") != "192.0.2.1" || said.Reason != "LevelLacks" {
		t.Errorf("published %q, condition %+v", w.has("web"), said)
	}
}
