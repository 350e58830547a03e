package balancer

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A Service that wants two families is not asked for while it cannot have one of them.
func TestIPAM_OneFamilyOnly(t *testing.T) {
	p := newPlayed(t, "192.0.2.7", "192.0.2.8")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	both := w.service("both", families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol))
	prefers := w.service("prefers", families(corev1.IPFamilyPolicyPreferDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol))
	w.gets(prefers, "192.0.2.7")
	if got := w.last.reason(both); got != "NoSuchFamily" || len(allocator.AskedOf(both)) != 0 || p.called(http.MethodPut) != 1 {
		t.Errorf("reason %s, asked %v, %d calls", got, allocator.AskedOf(both), p.called(http.MethodPut))
	}
}

// Who writes Services removes the finalizer and deletes the Service, so that no object says what the IPAM has.
func TestIPAM_Forced(t *testing.T) {
	p := newPlayed(t, "192.0.2.7", "192.0.2.8")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28", "2001:db8::/120"))
	for range 2 { // the IPAM has no IPv6 address, and so nothing is claimed
		both := w.service("both", families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol))
		w.fails(both, "IPAMRefused", "gives no IPv6 address")
		w.stores(p, "[lan/"+string(both.UID)+"/ipv4=192.0.2.7]")
		both.Finalizers = nil
		w.pass(-1) // sees the Service without finalizer, which it has no longer when it is deleted
		delete(w.services, allocator.NameOf(both))
		if got := w.pass(-1); len(got.Recalled) == 0 {
			t.Errorf("nothing is recalled: %v", slicesOf(got.Calls))
		}
		w.released(p)
		w.until("nothing is asked any more", func(got planned) bool { return len(got.Calls) == 0 && len(got.Recalled) == 0 })
		p.now(func() { p.free = []string{"192.0.2.7"} })
	}
	web := w.service("web") // whose pool is deleted meanwhile
	p.now(func() { p.status = http.StatusServiceUnavailable })
	w.fails(web, "IPAMPending", "answers 503")
	delete(w.services, allocator.NameOf(web))
	w.pools = nil
	if got := w.pass(-1); len(got.Left) != 1 {
		t.Errorf("left: %v", got.Left)
	}
	for began := time.Now(); len(w.pass(-1).Left) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("it is said in each pass")
		}
	}
}
