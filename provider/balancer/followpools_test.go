package balancer

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// TestFollow_SecondPool: a host part is completed by the pool that the Service has its address from, whatever other pools have the same ones.
func TestFollow_SecondPool(t *testing.T) {
	for _, tt := range []struct {
		name, prefix string
		change       func(alpha, home *v1alpha1.AddressPool)
	}{
		{"with a prefix", "2001:db8:a::/64", nil},
		{"without one", "", nil},
		{"disabled", "2001:db8:a::/64", func(alpha, _ *v1alpha1.AddressPool) { alpha.Spec.Disabled = true }},
		{"not asked for", "2001:db8:a::/64", func(alpha, _ *v1alpha1.AddressPool) { alpha.Spec.AutoAssign = new(false) }},
		{"and the former one serves others", "2001:db8:a::/64", func(_, home *v1alpha1.AddressPool) { home.Spec.Serve.Namespaces = []string{"other"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:ff")
			w := newWorld(home)
			w.add("host", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::f000:5"))
			w.settled(t)
			expect := func(when, want string) {
				t.Helper()
				w.settled(t)
				if got := w.says("host"); w.has("host") != want || !strings.HasPrefix(got, "Announced: "+want) || len(w.live()) != 1 {
					t.Errorf("%s: it has %q, want %q, and says %q; claims %v", when, w.has("host"), want, got, w.live())
				}
			}
			alpha := dynamicPool("alpha", tt.prefix, "::f000:0-::f000:ff")
			w.pools = append(w.pools, alpha)
			if tt.change != nil {
				tt.change(alpha, home)
			}
			expect("a second pool", "2001:db8:1::f000:5")
			inPrefix(home, "")
			expect("its prefix is not known", "2001:db8:1::f000:5")
			home.Spec.Exclude = []string{"2001:db8:1::f000:5"}
			inPrefix(home, "2001:db8:1::/64")
			w.settled(t)
			if got := w.has("host"); got != "2001:db8:1::f000:5" {
				t.Errorf("an edit of the pool moves it to %q", got)
			}
			if home.Spec.Exclude = nil; home.Spec.Serve.Namespaces != nil {
				return
			}
			clear(w.objects)
			expect("claims were lost", "2001:db8:1::f000:5")
			inPrefix(home, "2001:db8:2::/64")
			w.told("2001:db8:1::f000:5")
			if got := w.has("host"); got != "2001:db8:1::f000:5" || len(w.live()) != 2 {
				t.Errorf("while the prefix changes it has %q; claims %v", got, w.live())
			}
			expect("its prefix changes", "2001:db8:2::f000:5")
		})
	}
}

// TestFollow_ClaimsLost: the address that is published stays, though both claims are lost while no agent announces the other one.
func TestFollow_ClaimsLost(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5"))
	w.add("web", ofIPv6)
	w.settled(t)
	inPrefix(w.pools[0], "2001:db8:2::/64")
	for range 2 {
		w.told("2001:db8:1::5")
	}
	if got := w.says("web"); w.has("web") != "2001:db8:1::5" || !strings.HasPrefix(got, "NotAnnounced: no agent announces 2001:db8:2::5; ") {
		t.Fatalf("it has %q, and says %q: nothing is tested", w.has("web"), got)
	}
	clear(w.objects)
	for range 3 {
		w.told("2001:db8:1::5")
		if got := w.has("web"); got != "2001:db8:1::5" || !slices.Contains(w.live(), got) {
			t.Fatalf("it has %q, and says %q; claims %v", got, w.says("web"), w.live())
		}
	}
}

// TestFollow_FirstPool: of pools with the same host parts the first one that gives completes a new request.
func TestFollow_FirstPool(t *testing.T) {
	alpha, home := dynamicPool("alpha", "", "::5"), dynamicPool("home", "2001:db8:1::/64", "::5")
	w := newWorld(alpha, home)
	w.add("host", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::5"))
	w.settled(t)
	if got := w.has("host"); got != "2001:db8:1::5" {
		t.Errorf("the first one does not know its prefix: it has %q, and says %q", got, w.says("host"))
	}
	home.Spec.Disabled = true
	w.add("late", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::5"), annotated(v1alpha1.ShareKeyAnnotation, "k"))
	w.settled(t)
	if got := w.says("late"); !strings.HasPrefix(got, "PoolNotReady: AddressPool/alpha does not give ::5: its prefix is not known") {
		t.Errorf("none gives: it says %q", got)
	}
	w.pools = w.pools[1:]
	delete(w.services, types.NamespacedName{Namespace: "default", Name: "host"})
	clear(w.objects)
	w.settled(t)
	if got := w.says("late"); !strings.Contains(got, "AddressPool/home contains 2001:db8:1::5 but is disabled") {
		t.Errorf("the pool is disabled: it says %q", got)
	}
}

// TestFollow_Overlap: what Nodes report costs a pool its host parts, and neither its ranges nor another pool's.
func TestFollow_Overlap(t *testing.T) {
	home := dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:ff")
	home.Spec.Ranges = []string{"192.0.2.50-192.0.2.99"}
	former := addressPool("former", "2001:db8:1::f000:0/120")
	younger := addressPool("younger", "192.0.2.96/28")
	younger.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
	w := newWorld(home, former, younger)
	for _, p := range w.snapshot().Pools {
		if (p.Problem != nil) != (p.Name == "younger") || (p.LacksPrefix() != nil) != (p.Name == "home") {
			t.Errorf("AddressPool/%s: %v; %v", p.Name, p.Problem, p.LacksPrefix())
		}
		if status := poolStatus(p, allocator.Allocate(w.snapshot()), nil, "", w.now); p.Name == "home" && (status.Available != "50" ||
			!strings.HasSuffix(status.Conditions[0].Message, "with prefix 2001:db8:1::/64, addresses are also those of AddressPool/former")) {
			t.Errorf("the pool's status is %+v", status)
		}
	}
	w.add("four")
	w.add("six", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::f000:5"))
	w.settled(t)
	if got := w.has("four"); !strings.HasPrefix(got, "192.0.2.") {
		t.Errorf("of IPv4 it has %q, and says %q", got, w.says("four"))
	}
	want := "PoolNotReady: AddressPool/home does not give ::f000:5: with prefix 2001:db8:1::/64, addresses are also those of AddressPool/former"
	if got := w.says("six"); !strings.HasPrefix(got, want) {
		t.Errorf("of IPv6 it has %q, and says %q, want %q", w.has("six"), got, want)
	}
	w.pools = w.pools[:1]
	w.settled(t)
	if got := w.has("six"); got != "2001:db8:1::f000:5" {
		t.Errorf("alone, it has %q", got)
	}
}

// TestFollow_HostZero: the address with host part zero is that of all routers on the link (RFC 4291).
func TestFollow_HostZero(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::/127"))
	w.add("one", ofIPv6)
	w.add("two", ofIPv6)
	w.settled(t)
	if got := w.has("one"); got != "2001:db8:1::1" || !strings.HasPrefix(w.says("two"), "PoolExhausted") {
		t.Errorf("they have %q and %q", got, w.has("two"))
	}
}
