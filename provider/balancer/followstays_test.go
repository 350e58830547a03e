package balancer

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

const under1, under2 = "2001:db8:1::5", "2001:db8:2::5"

// service is the present one: passes put others in the place of those that were added.
func (w *world) service(name string) *corev1.Service {
	return w.services[types.NamespacedName{Namespace: "default", Name: name}]
}

// stays is three passes in which agents announce only the former address, which web keeps.
func (w *world) stays(t *testing.T, when, says string) {
	t.Helper()
	for range 3 {
		w.told(under1)
		if got := w.has("web"); got != under1 || !slices.Contains(w.live(), got) {
			t.Fatalf("%s it has %q, and says %q; claims %v", when, got, w.says("web"), w.live())
		}
	}
	if got := w.says("web"); !strings.HasPrefix(got, says) {
		t.Errorf("%s it says %q, want %q", when, got, says)
	}
}

// TestFollow_Quarrel: two Services that share an address are edited while their second claims wait, so that they may not. The older
// one came later to the first claim, and is the first one of the second. Each has one, and none has that of the other.
func TestFollow_Quarrel(t *testing.T) {
	host, key := annotated(v1alpha1.AddressesAnnotation, "::5"), annotated(v1alpha1.ShareKeyAnnotation, "k")
	for _, tt := range []struct {
		name      string
		requested bool
	}{{"both request the host part", true}, {"neither requests anything", false}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5", "::6"))
			older := w.add("older", ofIPv6, onPort(81), key, host, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
			w.add("web", ofIPv6, key, host)
			w.settled(t)
			older.Spec.Type = corev1.ServiceTypeLoadBalancer
			w.settled(t)
			if w.has("older") != under1 || w.has("web") != under1 {
				t.Fatalf("they have %q and %q: nothing is tested", w.has("older"), w.has("web"))
			}
			for _, name := range []string{"older", "web"} {
				if !tt.requested {
					delete(w.service(name).Annotations, v1alpha1.AddressesAnnotation)
				}
			}
			inPrefix(w.pools[0], "2001:db8:2::/64")
			w.told(under1)
			onPort(81)(w.service("web"))
			w.stays(t, "before agents announce the other address", "SharingConflict: the prefix of AddressPool/home is now 2001:db8:2::/64: ")
			if got := w.has("older"); got != "" {
				t.Errorf("the other one has %q, too", got)
			}
			for range 3 {
				w.told(w.live()...)
			}
			if w.has("older") != under2 || w.has("web") != under1 {
				t.Errorf("announced, they have %q and %q, and say %q and %q", w.has("older"), w.has("web"), w.says("older"), w.says("web"))
			}
		})
	}
}

// TestFollow_OneClaimLost: whichever of both claims is lost while no agent announces the other one, the published address stays,
// and follows once that is announced.
func TestFollow_OneClaimLost(t *testing.T) {
	for _, tt := range []struct {
		name, request string
		lost          []string
		pools         int // others with the host part
	}{
		{"that of the published address", "", []string{under1}, 0},
		{"that of the other one", "", []string{under2}, 0},
		{"both", "", []string{under1, under2}, 0},
		{"that of the published address, with a request", "::5", []string{under1}, 0},
		{"both, with a request", "::5", []string{under1, under2}, 0},
		{"that of the published address, with a second pool", "", []string{under1}, 1},
		{"that of the published address, with a second pool and a request", "::5", []string{under1}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5"))
			w.add("web", ofIPv6, annotated(v1alpha1.AddressesAnnotation, tt.request))
			w.settled(t)
			inPrefix(w.pools[0], "2001:db8:2::/64")
			for range tt.pools {
				w.pools = append(w.pools, dynamicPool("alpha", "2001:db8:a::/64", "::5"))
			}
			const waits = "NotAnnounced: no agent announces " + under2 + "; "
			w.stays(t, "before", waits)
			for _, address := range tt.lost {
				delete(w.objects, address)
			}
			as := allocator.Allocate(w.snapshot()).Services[types.NamespacedName{Namespace: "default", Name: "web"}]
			if as.Followed != "" {
				t.Errorf("it is told that %s", as.Followed)
			}
			w.stays(t, "after the loss", waits)
			w.settled(t)
			if got := w.has("web"); got != under2 {
				t.Errorf("announced, it has %q, and says %q", got, w.says("web"))
			}
		})
	}
}

// TestFollow_LostWhileItStays: claims are lost while a Service cannot follow, for whatever reason. It keeps its address, and follows later.
func TestFollow_LostWhileItStays(t *testing.T) {
	for _, tt := range []struct {
		name, says string
		cause, end func(w *world)
	}{
		{
			"the pool is disabled", "NoPoolServes: the prefix of AddressPool/home is now 2001:db8:2::/64: ",
			func(w *world) { w.pools[0].Spec.Disabled = true }, func(w *world) { w.pools[0].Spec.Disabled = false },
		},
		{
			"the pool serves others", "NoPoolServes: the prefix of AddressPool/home is now 2001:db8:2::/64: ",
			func(w *world) { w.pools[0].Spec.Serve.Namespaces = []string{"x"} }, func(w *world) { w.pools[0].Spec.Serve.Namespaces = nil },
		},
		{
			"the address is a Node's", "AddressInUse: the prefix of AddressPool/home is now 2001:db8:2::/64: ",
			func(w *world) { w.setNodes(under2) }, func(w *world) { w.setNodes() },
		},
		{
			"the prefix is not known", "Announced: " + under1,
			func(w *world) { inPrefix(w.pools[0], "") }, func(w *world) { inPrefix(w.pools[0], "2001:db8:2::/64") },
		},
	} {
		for _, request := range []string{"", "::5"} {
			t.Run(tt.name+request, func(t *testing.T) {
				w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5"))
				w.add("web", ofIPv6, annotated(v1alpha1.AddressesAnnotation, request))
				w.settled(t)
				inPrefix(w.pools[0], "2001:db8:2::/64")
				tt.cause(w)
				w.stays(t, "before", tt.says)
				clear(w.objects)
				w.stays(t, "after the loss", tt.says)
				tt.end(w)
				w.settled(t)
				if got := w.has("web"); got != under2 {
					t.Errorf("in the end it has %q, and says %q", got, w.says("web"))
				}
			})
		}
	}
}

// TestFollow_LostByNodes: addresses that a Service had of Nodes are claimed by none, also where a pool has their host part.
func TestFollow_LostByNodes(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:2::/64", "::5", "::6"))
	s := w.add("web", ofIPv6, annotated(v1alpha1.AllocatedAnnotation, under1), withStatus(under1))
	saysAnnounced(s)
	s.Status.Conditions[0].Reason = allocator.NodeIPReason
	w.pass()
	if got := w.live(); slices.Contains(got, under1) {
		t.Errorf("claims %v", got)
	}
}

// TestFollow_Onward: a second prefix comes before the address under the first one was announced, whose claim is older than that of the
// published address.
func TestFollow_Onward(t *testing.T) {
	for _, request := range []string{"", "::5"} {
		w := newWorld(dynamicPool("home", "2001:db8:2::/64", "::5"))
		w.add("web", ofIPv6, annotated(v1alpha1.AddressesAnnotation, request))
		w.settled(t)
		inPrefix(w.pools[0], "2001:db8:1::/64")
		w.settled(t)
		for _, prefix := range []string{"2001:db8:2::/64", "2001:db8:3::/64"} {
			inPrefix(w.pools[0], prefix)
			w.told(under1)
			if got := w.has("web"); got != under1 {
				t.Fatalf("with prefix %s and request %q it has %q, and says %q; claims %v", prefix, request, got, w.says("web"), w.live())
			}
		}
		w.settled(t)
		if got := w.has("web"); got != "2001:db8:3::5" {
			t.Errorf("announced, it has %q, and says %q", got, w.says("web"))
		}
	}
}

// TestFollow_ReassignWaits: a request for another address outlasts a change of the prefix, as long as the pool has no other.
func TestFollow_ReassignWaits(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5", "::6"))
	w.add("web", ofIPv6)
	w.add("other", ofIPv6)
	w.settled(t)
	host := strings.TrimPrefix(w.has("web"), "2001:db8:1::")
	w.service("web").Annotations[v1alpha1.ReassignAnnotation] = "true"
	for _, prefix := range []string{"2001:db8:1::", "2001:db8:2::"} {
		inPrefix(w.pools[0], prefix+"/64")
		w.settled(t)
		if got := w.says("web"); w.has("web") != prefix+host || w.service("web").Annotations[v1alpha1.ReassignAnnotation] == "" ||
			!strings.HasPrefix(got, "PoolExhausted") {
			t.Fatalf("with prefix %s it has %q, and says %q: %v", prefix, w.has("web"), got, w.service("web").Annotations)
		}
	}
	w.pools[0].Spec.DynamicPrefix.Hosts = append(w.pools[0].Spec.DynamicPrefix.Hosts, "::7")
	w.told(w.live()...)
	w.told(w.live()...)
	if got := w.has("web"); got != "2001:db8:2::7" || w.service("web").Annotations[v1alpha1.ReassignAnnotation] != "" {
		t.Errorf("with a free address it has %q, and says %q: %v", got, w.says("web"), w.service("web").Annotations)
	}
}

// TestFollow_ReassignAtOnce: a request comes in the pass in which the Service follows. It gets another address, and is not told of
// the one that it left at once.
func TestFollow_ReassignAtOnce(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5"))
	w.add("web", ofIPv6)
	w.settled(t)
	inPrefix(w.pools[0], "2001:db8:2::/64")
	w.told(under1)
	w.pools[0].Spec.DynamicPrefix.Hosts = append(w.pools[0].Spec.DynamicPrefix.Hosts, "::7")
	w.service("web").Annotations[v1alpha1.ReassignAnnotation] = "true"
	s := w.snapshot()
	s.Announced = map[netip.Addr]bool{netip.MustParseAddr(under2): true}
	as := allocator.Allocate(s).Services[types.NamespacedName{Namespace: "default", Name: "web"}]
	if got := as.By[true].String(); got != "2001:db8:2::7" || as.Moot || !as.Reassigned || as.Followed != "" {
		t.Errorf("it has %s; moot %t, reassigned %t, followed %q", got, as.Moot, as.Reassigned, as.Followed)
	}
}
