package balancer

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

func TestAllocate_Requests(t *testing.T) {
	const lan = "192.0.2.10-192.0.2.11"
	v6 := addressPool("six", "2001:db8::/64")
	both := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	for _, tt := range []struct {
		name   string
		pools  []*v1alpha1.AddressPool
		change func(*corev1.Service)
		want   string // addresses
		reason string
	}{
		{"nothing in particular", []*v1alpha1.AddressPool{addressPool("lan", "192.0.2.9")}, func(*corev1.Service) {}, "192.0.2.9", ""},
		{"an address", nil, annotated(v1alpha1.AddressesAnnotation, "192.0.2.11"), "192.0.2.11", ""},
		{"spec.loadBalancerIP", nil, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.11" }, "192.0.2.11", ""},
		{"as MetalLB has it", nil, annotated("metallb.io/loadBalancerIPs", "192.0.2.11"), "192.0.2.11", ""},
		{"as MetalLB had it", nil, annotated("metallb.universe.tf/loadBalancerIPs", "192.0.2.11"), "192.0.2.11", ""},
		{"as kube-vip has it", nil, annotated("kube-vip.io/loadbalancerIPs", "192.0.2.11"), "192.0.2.11", ""},
		{"as Cilium has it", nil, annotated("lbipam.cilium.io/ips", "192.0.2.11"), "192.0.2.11", ""},
		{"outside", nil, annotated(v1alpha1.AddressesAnnotation, "198.51.100.1"), "", "AddressOutsidePools"},
		{"no address", nil, annotated(v1alpha1.AddressesAnnotation, "dhcp"), "", "AddressOutsidePools"},
		{"another family", nil, annotated(v1alpha1.AddressesAnnotation, "2001:db8::1"), "", "NoSuchFamily"},
		{"two of a family", nil, annotated(v1alpha1.AddressesAnnotation, "192.0.2.10,192.0.2.11"), "", "NoSuchFamily"},
		{"in use", nil, annotated(v1alpha1.AddressesAnnotation, "192.0.2.10"), "", "AddressInUse"},
		{
			"somebody else's claim",
			[]*v1alpha1.AddressPool{addressPool("x", "203.0.113.7")},
			annotated(v1alpha1.AddressesAnnotation, "203.0.113.7"), "", "AddressInUse",
		},
		{
			"a pool",
			[]*v1alpha1.AddressPool{addressPool("a", lan), addressPool("b", "192.0.2.20")},
			annotated(v1alpha1.PoolAnnotation, "b"), "192.0.2.20", "",
		},
		{
			"a pool as MetalLB has it",
			[]*v1alpha1.AddressPool{addressPool("a", lan), addressPool("b", "192.0.2.20")},
			annotated("metallb.io/address-pool", "b"), "192.0.2.20", "",
		},
		{"a pool that is not there", nil, annotated(v1alpha1.PoolAnnotation, "b"), "", "PoolNotFound"},
		{
			"an address of another pool",
			[]*v1alpha1.AddressPool{addressPool("a", lan), addressPool("b", "192.0.2.20")},
			func(s *corev1.Service) {
				annotated(v1alpha1.PoolAnnotation, "b")(s)
				annotated(v1alpha1.AddressesAnnotation, "192.0.2.11")(s)
			}, "", "AddressOutsidePools",
		},
		{"exhausted", []*v1alpha1.AddressPool{addressPool("lan", "192.0.2.10")}, func(*corev1.Service) {}, "", "PoolExhausted"},
		{"family that no pool has", nil, families(corev1.IPFamilyPolicySingleStack, corev1.IPv6Protocol), "", "NoSuchFamily"},
		{
			"prefer two, one is there",
			[]*v1alpha1.AddressPool{addressPool("lan", "192.0.2.9")},
			families(corev1.IPFamilyPolicyPreferDualStack, both...), "192.0.2.9", "",
		},
		{"require two, one is there", nil, families(corev1.IPFamilyPolicyRequireDualStack, both...), "", "NoSuchFamily"},
		{
			"require two, both are there",
			[]*v1alpha1.AddressPool{addressPool("lan", "192.0.2.9", "2001:db8::7")},
			families(corev1.IPFamilyPolicyRequireDualStack, both...), "192.0.2.9,2001:db8::7", "",
		},
		{
			"IPv6 of an own pool",
			[]*v1alpha1.AddressPool{addressPool("lan", lan), v6},
			func(s *corev1.Service) {
				families(corev1.IPFamilyPolicySingleStack, corev1.IPv6Protocol)(s)
				s.Spec.LoadBalancerIP = "2001:0db8::00ab"
			}, "2001:db8::ab", "",
		},
		{"another namespace's pool", []*v1alpha1.AddressPool{limited("lan", "other")}, func(*corev1.Service) {}, "", "NoPoolServes"},
		{"a pool for the asking", []*v1alpha1.AddressPool{unasked("lan")}, func(*corev1.Service) {}, "", "NoPoolServes"},
		{"asked", []*v1alpha1.AddressPool{unasked("lan")}, annotated(v1alpha1.PoolAnnotation, "lan"), "192.0.2.200", ""},
		{"a broken pool", []*v1alpha1.AddressPool{addressPool("lan", "192.0.2.300")}, func(*corev1.Service) {}, "", "PoolNotReady"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(addressPool("lan", lan))
			w.add("first", annotated(v1alpha1.AddressesAnnotation, "192.0.2.10"))
			w.conflicts[netip.MustParseAddr("203.0.113.7")] = true
			w.pass()
			if tt.pools != nil {
				w.pools = tt.pools
			}
			s := w.add("asks", tt.change)
			p := w.pass()
			if got := p.of(s); got != tt.want || p.reason(s) != tt.reason {
				t.Errorf("got %q, reason %q: want %q, %q", got, p.reason(s), tt.want, tt.reason)
			}
		})
	}
}

// What implementations of the Gateway API write for spec.addresses: a host name is refused in words that name the field; one address
// beside ipFamilyPolicy PreferDualStack leaves the other family to the pools.
func TestAllocate_Gateway(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.10-192.0.2.11", "2001:db8::7"))
	named := w.add("named", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "www.example.com" })
	istio := w.add("istio", func(s *corev1.Service) {
		families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
		s.Spec.LoadBalancerIP = "192.0.2.11"
	})
	both := w.add("both", func(s *corev1.Service) {
		families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
		s.Spec.LoadBalancerIP = "2001:db8::9,192.0.2.10"
	})
	p := w.pass()
	problem := p.Services[allocator.NameOf(named)].Problem
	if want := `spec.loadBalancerIP: "www.example.com" is no IP address`; problem == nil || problem.Error() != want {
		t.Errorf("a host name: %v, want %s", problem, want)
	}
	if got := p.of(istio); got != "192.0.2.11,2001:db8::7" {
		t.Errorf("one address of two families: %s", got)
	}
	if got, reason := p.of(both), p.reason(both); got != "192.0.2.10" || reason != "AddressOutsidePools" {
		t.Errorf("an address of each family, one of them in no pool: %q, %s", got, reason)
	}
}

func TestAllocate_Sharing(t *testing.T) {
	key := annotated(v1alpha1.ShareKeyAnnotation, "k")
	local := func(app string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			s.Spec.Selector = map[string]string{"app": app}
		}
	}
	for _, tt := range []struct {
		name          string
		first, second []func(*corev1.Service)
		shared        bool
	}{
		{"one key, two ports", []func(*corev1.Service){key}, []func(*corev1.Service){key, onPort(81)}, true},
		{"one port", []func(*corev1.Service){key}, []func(*corev1.Service){key}, false},
		{"no key", nil, []func(*corev1.Service){onPort(81)}, false},
		{"one has a key", []func(*corev1.Service){key}, []func(*corev1.Service){onPort(81)}, false},
		{
			"one port of two protocols",
			[]func(*corev1.Service){key},
			[]func(*corev1.Service){key, func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }},
			true,
		},
		{
			"another namespace",
			[]func(*corev1.Service){key},
			[]func(*corev1.Service){key, onPort(81), func(s *corev1.Service) { s.Namespace = "other" }},
			false,
		},
		{"Local, the same pods", []func(*corev1.Service){key, local("a")}, []func(*corev1.Service){key, onPort(81), local("a")}, true},
		{"Local, other pods", []func(*corev1.Service){key, local("a")}, []func(*corev1.Service){key, onPort(81), local("b")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(addressPool("lan", "192.0.2.0/24"))
			a, b := w.add("a", tt.first...), w.add("b", tt.second...)
			p := w.pass()
			if p.of(a) == "" || p.of(b) == "" || (p.of(a) == p.of(b)) != tt.shared {
				t.Errorf("got %q and %q, shared: %t", p.of(a), p.of(b), tt.shared)
			}
			// The first one goes: who shared stays where it is, and so does the address while anybody has it.
			delete(w.services, allocator.NameOf(a))
			if got := w.pass().of(b); got != p.of(b) {
				t.Errorf("after the other one has gone: %s, before %s", got, p.of(b))
			}
			w.now = w.now.Add(time.Hour)
			w.pass()
			if got := len(w.objects); got != 1 {
				t.Errorf("%d claims, want one", got)
			}
		})
	}
}

// A Service that gets a released address again is published once the network was probed again: another machine may have taken
// the address meanwhile.
func TestAllocate_ReleasedIsProbedAgain(t *testing.T) {
	w := newWorld(addressPool("p", "192.0.2.1"))
	w.setNodes("198.18.0.1")
	s := w.add("web")
	w.told("192.0.2.1")
	w.told("192.0.2.1")
	if w.has("web") != "192.0.2.1" {
		t.Fatal("it was not published: nothing is tested")
	}
	delete(w.services, allocator.NameOf(s))
	w.told()
	w.add("web")
	w.told()
	w.told()
	if got := w.has("web"); got != "" {
		t.Errorf("%s is published before the network was probed again", got)
	}
	w.told("192.0.2.1")
	if got := w.has("web"); got != "192.0.2.1" {
		t.Errorf("it has %q, want the address that was kept for it", got)
	}
}
