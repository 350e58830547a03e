package balancer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// TestFollow_Crashes: prefixes change, Services come and go, some are to get another address, agents announce some of the claims, and passes
// end anywhere. No other Service loses its host part, nor gets another's address, and in the end all are under the last prefix with nothing
// left behind.
func TestFollow_Crashes(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 2))
		w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:1f"))
		hosts, moves := map[types.NamespacedName]netip.Addr{}, map[types.NamespacedName]bool{}
		for range 60 {
			w.now = w.now.Add(time.Duration(random.IntN(40)) * time.Second)
			name := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("s", random.IntN(8))}
			switch {
			case random.IntN(3) == 0:
				inPrefix(w.pools[0], []string{"", "2001:db8:1::/64", "2001:db8:2::/64", "2001:db8:3::/64"}[random.IntN(4)])
			case w.services[name] == nil:
				w.add(name.Name, ofIPv6)
			case random.IntN(3) == 0:
				delete(w.services, name)
				delete(hosts, name)
				delete(moves, name)
			case random.IntN(4) == 0:
				w.services[name].Annotations[v1alpha1.ReassignAnnotation] = "true"
				moves[name] = true
			}
			for name := range moves {
				delete(hosts, name)
			}
			steps := w.steps(w.someAnnounced(random))
			for _, do := range steps[:random.IntN(len(steps)+1)] {
				do()
			}
			w.checkHosts(t, seed, hosts)
		}
		inPrefix(w.pools[0], "2001:db8:2::/64")
		for name := range moves {
			delete(hosts, name)
		}
		for range 4 {
			w.now = w.now.Add(2 * time.Minute)
			for _, do := range w.steps(w.someAnnounced(nil)) {
				do()
			}
		}
		w.checkHosts(t, seed, hosts)
		for name := range w.services {
			if !strings.HasPrefix(w.has(name.Name), "2001:db8:2::f000:") {
				t.Errorf("seed %d: Service %s has %q", seed, name, w.has(name.Name))
			}
		}
		if len(w.objects) != len(w.services) {
			t.Errorf("seed %d: %d Services have claims %v", seed, len(w.services), w.objects)
		}
	}
}

// someAnnounced is the plan of a pass while agents announce some of the claims, or all of them.
func (w *world) someAnnounced(random *rand.Rand) *allocator.Plan {
	s := w.snapshot()
	s.Announced = map[netip.Addr]bool{}
	for _, text := range w.live() {
		if random == nil || random.IntN(2) == 0 {
			s.Announced[netip.MustParseAddr(text)] = true
		}
	}
	return allocator.Allocate(s)
}

// checkHosts compares the host part of each published address with that of before, and looks for addresses that two Services have.
func (w *world) checkHosts(t *testing.T, seed uint64, hosts map[types.NamespacedName]netip.Addr) {
	t.Helper()
	owners := map[string]types.NamespacedName{}
	for name := range w.services {
		text := w.has(name.Name)
		if text == "" {
			continue
		}
		if other, taken := owners[text]; taken {
			t.Errorf("seed %d: Services %s and %s have %s", seed, name, other, text)
		}
		owners[text] = name
		bits := netip.MustParseAddr(text).As16()
		clear(bits[:8])
		host := netip.AddrFrom16(bits)
		if was, known := hosts[name]; known && was != host {
			t.Errorf("seed %d: the host part of Service %s was %s, and is %s", seed, name, was, host)
		}
		hosts[name] = host
	}
}
