package balancer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster in memory: objects, and a clock.
type world struct {
	now      time.Time
	services map[types.NamespacedName]*corev1.Service
	objects  map[string]*networkingv1.IPAddress
	pools    []*v1alpha1.AddressPool
	taken    map[netip.Addr]bool
	made     int
}

func newWorld(pools ...*v1alpha1.AddressPool) *world {
	return &world{
		now: start, services: map[types.NamespacedName]*corev1.Service{}, objects: map[string]*networkingv1.IPAddress{},
		pools: pools, taken: map[netip.Addr]bool{},
	}
}

func addressPool(name string, ranges ...string) *v1alpha1.AddressPool {
	return &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start)},
		Spec:       v1alpha1.AddressPoolSpec{Ranges: ranges, ReuseAfter: metav1.Duration{Duration: time.Minute}},
	}
}

// add makes a Service of type LoadBalancer with port 80.
func (w *world) add(name string, changes ...func(*corev1.Service)) *corev1.Service {
	w.made++
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprint(w.made)), Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(start.Add(time.Duration(w.made) * time.Second)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	w.services[nameOf(s)] = s
	return s
}

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[key] = value }
}

func onPort(number int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Port = number }
}

func families(policy corev1.IPFamilyPolicy, list ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = list, &policy }
}

func (w *world) snapshot() *snapshot {
	s := &snapshot{now: w.now, pools: readPools(w.pools, nil, nil), taken: w.taken}
	for _, service := range w.services {
		s.known = append(s.known, service)
	}
	for _, object := range w.objects {
		c, _ := parseClaim(object)
		s.present = append(s.present, c)
	}
	return s
}

// step is one write of a plan.
type step func()

// steps are what a pass writes, claims first.
func (w *world) steps(p *plan) []step {
	var claims, rest []step
	for _, c := range p.claims {
		object := c.render()
		if c.object == nil {
			claims = append(claims, func() {
				if w.objects[object.Name] != nil {
					panic("create what is there")
				}
				object.CreationTimestamp = metav1.NewTime(w.now)
				w.objects[object.Name] = object
			})
		} else if !cmp.Equal(object, c.object) {
			claims = append(claims, func() { w.objects[object.Name] = object })
		}
	}
	for _, c := range p.drop {
		claims = append(claims, func() { delete(w.objects, c.address.String()) })
	}
	for name, as := range p.services {
		if list := as.addresses(); len(list) > 0 {
			rest = append(rest, func() {
				if s := w.services[name]; s != nil {
					s.Annotations[v1alpha1.AllocatedAnnotation] = join(list)
					if as.reassigned {
						delete(s.Annotations, v1alpha1.ReassignAnnotation)
					}
				}
			})
		}
	}
	return append(claims, rest...)
}

// pass makes a plan and carries it out.
func (w *world) pass() *plan {
	p := allocate(w.snapshot())
	for _, do := range w.steps(p) {
		do()
	}
	return p
}

func (p *plan) of(s *corev1.Service) string { return join(p.services[nameOf(s)].addresses()) }

func (p *plan) reason(s *corev1.Service) string {
	if problem := p.services[nameOf(s)].problem; problem != nil {
		return problem.Reason
	}
	return ""
}

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
			w.taken[netip.MustParseAddr("203.0.113.7")] = true
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

func limited(name, namespace string) *v1alpha1.AddressPool {
	p := addressPool(name, "192.0.2.200")
	p.Spec.Serve.Namespaces = []string{namespace}
	return p
}

func unasked(name string) *v1alpha1.AddressPool {
	p := addressPool(name, "192.0.2.200")
	p.Spec.AutoAssign = new(false)
	return p
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
			delete(w.services, nameOf(a))
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

// What a Service has stays, whatever becomes of pools, and it comes back to who had it.
func TestAllocate_Stays(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(w *world, s *corev1.Service)
		same   bool
	}{
		{"nothing", func(*world, *corev1.Service) {}, true},
		{"the pool is gone", func(w *world, _ *corev1.Service) { w.pools = nil }, true},
		{"the pool has other addresses", func(w *world, _ *corev1.Service) {
			w.pools = []*v1alpha1.AddressPool{addressPool("lan", "198.51.100.0/24")}
		}, true},
		{"the pool is disabled", func(w *world, _ *corev1.Service) { w.pools[0].Spec.Disabled = true }, true},
		{"the pool serves others", func(w *world, _ *corev1.Service) { w.pools[0].Spec.Serve.Namespaces = []string{"x"} }, true},
		{"it asks for what is in use", func(w *world, s *corev1.Service) {
			other := w.add("other")
			s.Annotations[v1alpha1.AddressesAnnotation] = w.pass().of(other)
		}, true},
		{"it is made again", func(w *world, s *corev1.Service) {
			delete(w.services, nameOf(s))
			w.pass()
			for n := range 100 { // which would be glad to have it
				w.add(fmt.Sprint("many-", n))
			}
			w.pass()
			w.services[nameOf(s)] = s
			delete(s.Annotations, v1alpha1.AllocatedAnnotation)
		}, true},
		{"it is made again, too late", func(w *world, s *corev1.Service) {
			delete(w.services, nameOf(s))
			w.pass()
			w.now = w.now.Add(time.Minute)
			w.pass()
			other := w.add("other", annotated(v1alpha1.AddressesAnnotation, s.Annotations[v1alpha1.AllocatedAnnotation]))
			if w.pass().of(other) == "" {
				panic("the quarantine has not ended")
			}
			w.services[nameOf(s)] = s
		}, false},
		{"claims are lost", func(w *world, _ *corev1.Service) { clear(w.objects) }, true},
		{"claims and annotation are lost", func(w *world, s *corev1.Service) {
			clear(w.objects)
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: s.Annotations[v1alpha1.AllocatedAnnotation]}}
			delete(s.Annotations, v1alpha1.AllocatedAnnotation)
			delete(w.services, nameOf(s))
			s.Name = "renamed" // or the hash of the name would find it
			w.services[nameOf(s)] = s
		}, true},
		{"it asks for another one", func(_ *world, s *corev1.Service) {
			s.Annotations[v1alpha1.ReassignAnnotation] = "true"
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(addressPool("lan", "192.0.2.0/24"))
			s := w.add("web")
			before := w.pass().of(s)
			tt.change(w, s)
			for range 3 {
				if got := w.pass().of(s); got == "" || (got == before) != tt.same {
					t.Errorf("got %s, before %s: same is to be %t", got, before, tt.same)
				}
			}
			if s.Annotations[v1alpha1.ReassignAnnotation] != "" {
				t.Error("the Service still asks for another address")
			}
		})
	}
}

// Random Services come, change and go, pools change, and every pass ends anywhere. Nobody ever has an address of somebody
// else, and once passes are completed, everything is as it would be without any crash: another pass has nothing to do.
func TestAllocate_Crashes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(addressPool("a", "192.0.2.0/28"), addressPool("b", "198.51.100.0/29", "2001:db8::/120"))
			before := map[types.NamespacedName]string{}
			for range 60 {
				moved := w.stir(random)
				steps := w.steps(allocate(w.snapshot()))
				for _, do := range steps[:random.IntN(len(steps)+1)] {
					do()
					w.check(t)
				}
				w.pass()
				w.pass()
				p := allocate(w.snapshot())
				for _, c := range p.claims {
					if c.object == nil || !cmp.Equal(c.render(), c.object) {
						t.Errorf("seed %d: a third pass writes %s", seed, c.address)
					}
				}
				w.check(t)
				for name, as := range p.services {
					now := join(as.addresses())
					if was := before[name]; was != "" && now == "" && !moved[name] {
						t.Errorf("seed %d: %s has lost %s: %v", seed, name, was, as.problem)
					}
					if was := before[name]; !keptAll(was, now) && !moved[name] {
						t.Errorf("seed %d: %s has moved from %s to %s", seed, name, was, now)
					}
					before[name] = now
				}
				for name := range before {
					if p.services[name] == nil {
						delete(before, name)
					}
				}
			}
		})
	}
}

// keptAll says whether all addresses are still there. Another family may have come.
func keptAll(was, now string) bool {
	for address := range strings.SplitSeq(was, ",") {
		if !slices.Contains(strings.Split(now, ","), address) && was != "" {
			return false
		}
	}
	return true
}

// stir changes something, and returns the Services that may have another address because of it.
func (w *world) stir(random *rand.Rand) map[types.NamespacedName]bool {
	moved := map[types.NamespacedName]bool{}
	w.now = w.now.Add(time.Duration(random.IntN(40)) * time.Second)
	name := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("s", random.IntN(12))}
	s := w.services[name]
	address := fmt.Sprintf("192.0.2.%d", random.IntN(17))
	switch n := random.IntN(10); {
	case s == nil:
		w.add(name.Name)
		s = w.services[name]
		if n < 4 {
			annotated(v1alpha1.ShareKeyAnnotation, "k")(s)
			onPort(int32(random.IntN(4)))(s)
		}
		if n == 5 {
			families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
		}
		if n == 6 {
			families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv6Protocol, corev1.IPv4Protocol)(s)
		}
		moved[name] = true
	case n < 4:
		delete(w.services, name)
	case n == 4:
		s.Annotations[v1alpha1.AddressesAnnotation] = address
		moved[name] = true
	case n == 5:
		delete(s.Annotations, v1alpha1.AddressesAnnotation)
	case n == 6:
		s.Annotations[v1alpha1.ReassignAnnotation] = "true"
		moved[name] = true
	case n == 7:
		pool := w.pools[random.IntN(2)]
		pool.Spec.Disabled = !pool.Spec.Disabled
	case n == 8:
		w.pools[0] = addressPool("a", []string{"192.0.2.0/28", "192.0.2.8/29", "192.0.2.0/30"}[random.IntN(3)])
	case n == 9:
		s.Annotations[v1alpha1.ShareKeyAnnotation] = "k"
		moved[name] = true
	}
	for name, s := range w.services {
		wanted := s.Annotations[v1alpha1.AddressesAnnotation]
		if s.Annotations[v1alpha1.ReassignAnnotation] != "" || !keptAll(wanted, s.Annotations[v1alpha1.AllocatedAnnotation]) {
			moved[name] = true // it is still waiting for an address to become free
		}
	}
	return moved
}

// check looks at the claims: who shares an address may, and no Service has two of a family after a completed pass.
func (w *world) check(t *testing.T) {
	t.Helper()
	for name, object := range w.objects {
		c, ok := parseClaim(object)
		if !ok || !c.live() {
			continue
		}
		for i, a := range c.owners {
			for _, b := range c.owners[:i] {
				if w.services[a] == nil || w.services[b] == nil {
					continue
				}
				if a == b || mayShare(w.services[a], w.services[b]) != nil && !w.edited(a, b) {
					t.Errorf("%s and %s have %s", a, b, name)
				}
			}
		}
	}
}

// edited says that Services may have come to disagree after they had begun to share.
func (w *world) edited(a, b types.NamespacedName) bool {
	return slices.ContainsFunc([]types.NamespacedName{a, b}, func(n types.NamespacedName) bool {
		return w.services[n].Annotations[v1alpha1.ShareKeyAnnotation] == ""
	})
}

func TestReadPools(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "192.0.2.4"}, {Type: corev1.NodeHostName, Address: "n1"},
		}},
	}
	cidr := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}},
	}
	older := addressPool("zz-older", "203.0.113.0/25")
	for _, tt := range []struct {
		name   string
		ranges []string
		want   string // in the problem
	}{
		{"fine", []string{"192.0.2.8/29", "2001:db8::1"}, ""},
		{"beside the Node", []string{"192.0.2.4/30"}, ""}, // its first address is left out
		{"the Node's address", []string{"192.0.2.1-192.0.2.9"}, "192.0.2.4 is the InternalIP of Node/n1"},
		{"pods", []string{"10.244.0.77"}, "belongs to the pods of Node/n1"},
		{"cluster IPs", []string{"10.100.0.0/24"}, "10.96.0.0/12 is ServiceCIDR/kubernetes"},
		{"another pool", []string{"203.0.113.100-203.0.113.200"}, "older AddressPool/zz-older"},
		{"no address", []string{"192.0.2"}, "192.0.2"},
		{"backwards", []string{"192.0.2.9-192.0.2.1"}, "192.0.2.9-192.0.2.1"},
		{"two families", []string{"192.0.2.9-2001:db8::1"}, "192.0.2.9-2001:db8::1"},
		{"a zone", []string{"fe80::1%eth0"}, "zone"},
		{"too long", []string{"192.0.2.0/33"}, "192.0.2.0/33"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			young := addressPool("young", tt.ranges...)
			young.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
			for _, p := range readPools([]*v1alpha1.AddressPool{young, older}, []*corev1.Node{node}, []*networkingv1.ServiceCIDR{cidr}) {
				got := ""
				if p.problem != nil {
					got = p.problem.Error()
				}
				switch {
				case p.Name == "zz-older" && got != "":
					t.Errorf("the older pool suffers from the younger one: %s", got)
				case p.Name == "young" && ((got == "") != (tt.want == "") || !strings.Contains(got, tt.want)):
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// A pool is used up to its last address, each once.
func TestFirstFree(t *testing.T) {
	p := readPool(addressPool("lan", "192.0.2.0/30", "198.51.100.7", "2001:db8::/126", "255.255.255.255"))
	used := map[netip.Addr]bool{}
	free := func(a netip.Addr) bool { return !used[a] }
	for _, ipv6 := range []bool{false, true} {
		for {
			address, ok := firstFree(p.set.Ranges(), ipv6, fmt.Sprint(len(used)), free)
			if !ok {
				break
			}
			if used[address] || address.Is6() != ipv6 || !p.set.Contains(address) {
				t.Fatalf("got %s", address)
			}
			used[address] = true
		}
	}
	if got := len(used); got != 2+1+1+4 {
		t.Errorf("got %d addresses", got)
	}
}
