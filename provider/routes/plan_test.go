package routes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// table is a kernel's routes, with its rules: one route per destination and metric.
type table []route

func (k *table) apply(c change) error {
	i := slices.IndexFunc(*k, func(r route) bool {
		return r.Destination == c.route.Destination && r.Metric == c.route.Metric
	})
	switch {
	case c.verb == add && i >= 0:
		return fmt.Errorf("add %v: %v is there", c.route, (*k)[i])
	case c.verb == add:
		*k = append(*k, c.route)
	case i < 0:
		return fmt.Errorf("%s %v: it is not there", c.verb, c.route)
	case !(*k)[i].ours():
		return fmt.Errorf("%s %v: touches %v, which is not ours", c.verb, c.route, (*k)[i])
	case c.verb == replace:
		(*k)[i] = c.route
	default:
		*k = slices.Delete(*k, i, i+1)
	}
	return nil
}

// foreign are the routes that must be the same before and after.
func (k table) foreign() []route {
	var list []route
	for _, r := range k {
		if !r.ours() {
			list = append(list, r)
		}
	}
	return list
}

// wayOut knows two networks; other addresses are reached by a gateway.
func wayOut(address netip.Addr) (int, error) {
	for link, network := range map[int]string{2: "192.0.2.0/24", 3: "198.51.100.0/24"} {
		if netip.MustParsePrefix(network).Contains(address) {
			return link, nil
		}
	}
	return 0, errNotOnLink
}

// What the kernel does not say takes nothing away: ours stays as it is, and is reported.
func TestPlan_Unknown(t *testing.T) {
	want := intent("10.244.1.0/24", "192.0.2.2", "b")
	ours, err := wantedRoute(want, wayOut)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := ours
	elsewhere.Via = netip.MustParseAddr("192.0.2.99")
	for _, tt := range []struct {
		name            string
		err             error
		kernel          route
		removed, routed int
	}{
		{"not on link", errNotOnLink, ours, 1, 0},
		{"no way, and ours leads there", errNoWay, ours, 0, 1},
		{"no way, and ours leads elsewhere", errNoWay, elsewhere, 1, 0},
		{"no answer, and ours leads there", errors.New("no buffer space available"), ours, 0, 1},
		{"no answer, and ours leads elsewhere", errors.New("no buffer space available"), elsewhere, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changes, settled, problems := plan([]Intent{want}, []route{tt.kernel}, func(netip.Addr) (int, error) {
				return 0, fmt.Errorf("find the way: %w", tt.err)
			})
			if len(changes) != tt.removed || len(settled) != tt.routed {
				t.Errorf("changes %v, settled %v, want %d and %d", changes, settled, tt.removed, tt.routed)
			}
			if len(problems) != 1 || problems[0].Reason != Unreachable || !strings.Contains(problems[0].Message, tt.err.Error()) {
				t.Errorf("problems %v, want one with %v", problems, tt.err)
			}
		})
	}
}

// Whatever the kernel has, and whatever is wanted of it: routes of others stay, a range of theirs gets none of ours,
// all others get what is wanted, nothing else of ours is left, and a second look has nothing to do.
func TestPlan_Property(t *testing.T) {
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 1))
		destination := func() netip.Prefix {
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(random.IntN(6)), 0}), 24)
		}
		via := func() netip.Addr {
			return netip.MustParseAddr([]string{"192.0.2.1", "192.0.2.2", "198.51.100.1", "203.0.113.1"}[random.IntN(4)])
		}
		var kernel table
		for range random.IntN(12) {
			protocol := []int{2, 3, 16, v1alpha1.RouteProtocol, v1alpha1.RouteProtocol}[random.IntN(5)]
			r := route{
				Destination: destination(), Via: via(), Link: 1 + random.IntN(3), Protocol: protocol,
				Metric: []int{0, 100, metric, unreachableMetric}[random.IntN(4)],
			}
			if !r.ours() && r.Metric == unreachableMetric {
				r.Metric = 1 // the kernel would refuse ours, and the agent report it
			}
			if random.IntN(4) == 0 {
				r.Via, r.Link, r.Unreachable = netip.Addr{}, 0, true
			}
			_ = kernel.apply(change{verb: add, route: r}) // or there is one of this metric
		}
		var intents []Intent
		for n := range random.IntN(6) {
			i := Intent{Destination: destination(), Via: via(), Node: fmt.Sprint("n", n)}
			if n == 0 {
				i.Via = netip.Addr{}
			}
			if !slices.ContainsFunc(intents, func(o Intent) bool { return o.Destination == i.Destination }) {
				intents = append(intents, i)
			}
		}
		checkPlan(t, seed, intents, kernel)
	}
}

func checkPlan(t *testing.T, seed uint64, intents []Intent, kernel table) {
	t.Helper()
	before := fmt.Sprintf("seed %d, intents %v, kernel %v", seed, intents, kernel)
	foreign := kernel.foreign()
	changes, settled, problems := plan(intents, kernel, wayOut)
	for _, c := range changes {
		if err := kernel.apply(c); err != nil {
			t.Fatalf("%s: %v", before, err)
		}
		if c.intent.Destination.IsValid() {
			settled = append(settled, c.intent)
		}
	}
	if diff := cmp.Diff(foreign, kernel.foreign(), equate()); diff != "" {
		t.Fatalf("%s: routes of others (-before +after):\n%s", before, diff)
	}
	if len(settled)+len(problems) != len(intents) {
		t.Fatalf("%s: settled %v, problems %v", before, settled, problems)
	}
	var want table
	for _, i := range settled {
		r, err := wantedRoute(i, wayOut)
		if err != nil {
			t.Fatalf("%s: settled %v: %v", before, i, err)
		}
		want = append(want, r)
	}
	got := slices.DeleteFunc(slices.Clone(kernel), func(r route) bool { return !r.ours() })
	byDestination := func(a, b route) int { return a.Destination.Compare(b.Destination) }
	slices.SortFunc(want, byDestination)
	slices.SortFunc(got, byDestination)
	if !slices.Equal(want, got) {
		t.Fatalf("%s: ours are %v, want %v", before, got, want)
	}
	for _, p := range problems {
		theirs := slices.ContainsFunc(foreign, func(r route) bool { return r.Destination.String() == p.Destination })
		if theirs != (p.Reason == Foreign) {
			t.Fatalf("%s: problem %v", before, p)
		}
	}
	if again, _, _ := plan(intents, kernel, wayOut); len(again) > 0 {
		t.Fatalf("%s: a second look changes %v", before, again)
	}
}
