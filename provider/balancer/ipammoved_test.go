package balancer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A pool is replaced by another, and comes back before the IPAM has answered for that: the entry is moved once, not back and forth.
func TestIPAM_TwoPools(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	lan, other := p.pool("192.0.2.0/28"), p.pool("192.0.2.0/28")
	other.Name = "other"
	w := newIPAMWorld(t, lan)
	w.gets(w.service("web"), "192.0.2.7")
	p.now(func() { p.status = http.StatusServiceUnavailable })
	w.pools = []*v1alpha1.AddressPool{other}
	keys := func() string { return w.objects["192.0.2.7"].Annotations[v1alpha1.ClaimLeaseAnnotation] }
	w.until("the claim says both keys", func(planned) bool { return strings.Contains(keys(), ",") })
	w.pools = []*v1alpha1.AddressPool{lan, other}
	w.pass(-1)
	p.now(func() { p.status = 0 })
	w.until("the claim says one key", func(planned) bool { return !strings.Contains(keys(), ",") })
	p.now(func() { p.calls = nil })
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		w.pass(-1)
	}
	if n := p.called(http.MethodPut); n > 1 {
		t.Errorf("%d calls within 300 ms: %v", n, p.calls)
	}
}

// A Service that waited for an address of its own shares another's: the entry is not moved to its key before the claim says so.
func TestIPAM_ClaimFirst(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	a := w.service("a", annotated(v1alpha1.ShareKeyAnnotation, "k"))
	w.gets(a, "192.0.2.7")
	p.now(func() { p.status = http.StatusServiceUnavailable })
	b := w.service("b", onPort(81))
	w.fails(b, "IPAMPending", "answers 503")
	b.Annotations = map[string]string{v1alpha1.ShareKeyAnnotation: "k"}
	w.until("b shares it", func(q planned) bool { return q.of(b) == "192.0.2.7" })
	delete(w.services, allocator.NameOf(a))
	key := allocator.LeaseKey{Pool: "lan", UID: b.UID}
	moves := func() bool {
		o, is := ordersOf(w.last.Plan, "c1", w.pools)[key]
		return is && o.From.UID == a.UID
	}
	if w.pass(0); moves() {
		t.Error("the IPAM is asked to move the entry, and the claim does not say so")
	}
	w.until("the entry is moved", func(planned) bool { return moves() })
}

// Two Services have exchanged their addresses, and each the key of the other: both stay in the IPAM.
func TestIPAM_Exchanged(t *testing.T) {
	p := newPlayed(t, "192.0.2.7", "192.0.2.8")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	w.gets(w.service("a"), "192.0.2.7")
	w.gets(w.service("b"), "192.0.2.8")
	one, two := w.objects["192.0.2.7"].Annotations, w.objects["192.0.2.8"].Annotations
	one[v1alpha1.ClaimLeaseAnnotation], two[v1alpha1.ClaimLeaseAnnotation] = two[v1alpha1.ClaimLeaseAnnotation], one[v1alpha1.ClaimLeaseAnnotation]
	p.now(func() {
		p.has["lan/1/ipv4"], p.has["lan/2/ipv4"] = p.has["lan/2/ipv4"], p.has["lan/1/ipv4"]
		p.calls = nil
	})
	before := p.state()
	w.restart()
	w.until("both are renewed", func(planned) bool { return p.called(http.MethodPut) >= 2 })
	if after := p.state(); after != before {
		t.Errorf("the IPAM has %s, had %s", after, before)
	}
}
