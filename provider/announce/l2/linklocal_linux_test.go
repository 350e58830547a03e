package l2

import (
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// An address of IPv6 on an interface that has no address of IPv6 itself waits for one. It says so once, and others on
// the interface notice nothing. It is answered for as soon as the interface has a link-local address.
func TestL2_WaitsForLinkLocal(t *testing.T) {
	old := announce.Claim{
		Address: netip.MustParseAddr("10.8.0.100"), Level: v1alpha1.LevelL2, Pool: "a", Probed: true, Candidates: []string{"a"},
	}
	fresh := old
	fresh.Address = netip.MustParseAddr("fd08::100")
	a := newAgents(t)
	ipv6 := func(setting, value string) {
		a.at(a.hosts["a"], func() error {
			return os.WriteFile("/proc/sys/net/ipv6/conf/lan-a/"+setting, []byte(value), 0)
		})
	}
	ipv6("accept_dad", "0") // an address is there at once
	ipv6("disable_ipv6", "1")
	a.view.Pools = map[string]*v1alpha1.AddressPool{"a": {
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.AddressPoolSpec{Interfaces: []string{"lan-a"}},
	}}
	a.view.Claims = []announce.Claim{old}
	a.view.Members = []string{"a"} // what others say has it look at all addresses
	a.startAll()
	l2 := a.list["a"]
	var reports, complaints atomic.Int32
	l2.mu.Lock()
	l2.Changed = func() { reports.Add(1) }
	l2.Log = funcr.New(func(_, text string) {
		t.Log(text)
		if strings.Contains(text, "Cannot answer for an address") {
			complaints.Add(1)
		}
	}, funcr.Options{})
	l2.mu.Unlock()
	a.owner(old.Address, "", 10*time.Second)
	o := a.observe(old.Address)
	var calm time.Duration
	for _, d := range gratuitousTimes() {
		calm = max(calm, d)
	}
	time.Sleep(calm + 500*time.Millisecond) // from now on it is due once a minute
	state := func() (*segment, int) {
		l2.mu.Lock()
		defer l2.mu.Unlock()
		return l2.segments["lan-a"], l2.owned[old.Address].gratuitous
	}
	segment, sent := state()
	began := time.Now()
	reports.Store(0)
	a.set(func(v *announce.View) { v.Claims = []announce.Claim{old, fresh} })
	time.Sleep(3 * time.Second)
	if gap, _ := o.gaps(began); gap > within(300*time.Millisecond) {
		t.Errorf("nobody answered for %s", gap)
	}
	if s, n := state(); s != segment || n < sent {
		t.Errorf("sockets %p became %p; what was told %d times is told for the %d. time", segment, s, sent, n)
	}
	if n := complaints.Load(); n != 1 {
		t.Errorf("it said %d times that the address is not answered for", n)
	}
	if n := reports.Load(); n > 0 {
		t.Errorf("%d reports of what has not changed", n)
	}
	ipv6("disable_ipv6", "0")
	late := a.observe(fresh.Address)
	a.owner(fresh.Address, "", 2*time.Second)
	waitFor(t, 30*time.Second, func() bool { // it is answered for
		gap, _ := late.gaps(time.Now().Add(-150 * time.Millisecond))
		return gap <= 100*time.Millisecond
	})
	if s, n := state(); s != segment || n < sent {
		t.Errorf("with the link-local address, sockets %p became %p, told %d times, then %d", segment, s, sent, n)
	}
}
