package routes

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// What agents have put into a kernel goes, and nothing else: not even a route that somebody else sets with our protocol.
func TestKernel_Leftovers(t *testing.T) {
	r := newRunning(t)
	if left, err := r.Leftovers(); err != nil || !left.Empty() {
		t.Fatalf("a machine without: got %v and error %v", left.Lines(), err)
	}
	if err := r.masquerade([]netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}, nil); err != nil {
		t.Fatal(err)
	}
	r.start(nodeA, nodeB, nodeC)
	r.has(routeA, routeB, routeC, routeA6, routeB6)
	r.stop()
	r.route("10.244.8.0/24", "192.0.2.8")
	if err := r.handle.RouteAdd(r.foreign("10.244.7.0/24", "192.0.2.7", v1alpha1.RouteProtocol, 20, "eth0")); err != nil {
		t.Fatal(err)
	}
	left, err := r.Leftovers()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"route 10.244.1.0/24 via 192.0.2.2 proto 158 metric 158",
		"route 10.244.2.0/24 via 192.0.2.3 proto 158 metric 158",
		"route unreachable 10.244.0.0/24 proto 158 metric 2147483647",
		"route fd00:10:244:1::/64 via 2001:db8::2 proto 158 metric 158",
		"route unreachable fd00:10:244::/64 proto 158 metric 2147483647",
		"nftables table inet ccmadm-pods",
	}
	byText := cmp.Transformer("sorted", func(list []string) map[string]bool {
		set := map[string]bool{}
		for _, line := range list {
			set[line] = true
		}
		return set
	})
	if diff := cmp.Diff(want, left.Lines(), byText); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for range 2 { // what has gone meanwhile is no error
		if err := r.Remove(left); err != nil {
			t.Fatal(err)
		}
	}
	r.has("10.244.7.0/24 via 192.0.2.7", "protocol 3 10.244.8.0/24 via 192.0.2.8")
	if left, err := r.Leftovers(); err != nil || !left.Empty() {
		t.Errorf("still there: %v, error %v", left.Lines(), err)
	}
}
