package l2

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// Three of nine agents have a vote. Those without one own addresses, take over from one that has failed in the usual time, and hand over
// what they have when they drain.
func TestL2_FewVote(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	for i := range 6 {
		name := fmt.Sprintf("w%d", i+1)
		a.plug(name, i+11)
		a.view.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		a.view.Agents[name] = &v1alpha1.NodeAgent{}
		a.view.Addresses[name] = netip.AddrFrom4([4]byte{10, 8, 0, byte(i + 11)})
	}
	workers := []string{"w1", "w2", "w3", "w4", "w5", "w6"}
	a.view.Claims[0].Candidates = workers
	a.startAll()
	for _, name := range workers {
		a.start(name)
	}
	owner, _ := a.owner(address, "", 10*time.Second)
	o := a.observe(address)
	time.Sleep(2 * time.Second)

	unheard := func(name string, want int) func() bool {
		return func() bool { c := a.list[name].Counts(); return c.Votes == 3 && c.Unheard == want }
	}
	waitFor(t, 30*time.Second, unheard("w1", 0))
	a.kill(owner)
	failed := time.Now()
	next, took := a.owner(address, owner, 5*time.Second)
	t.Logf("%s failed, and %s has the address after %s", owner, next, took)
	if took > within(2*time.Second) {
		t.Errorf("%s took the address after %s", next, took)
	}
	time.Sleep(2 * time.Second)

	drained := time.Now()
	a.list[next].Drain(t.Context())
	last, _ := a.owner(address, next, 5*time.Second)
	time.Sleep(time.Second)
	gap, _ := o.gaps(drained)
	t.Logf("%s drained, and %s has the address; the longest time without an answer was %s", next, last, gap)
	if gap > within(500*time.Millisecond) {
		t.Errorf("%s without an answer", gap)
	}
	a.kill("a")
	waitFor(t, 30*time.Second, unheard(last, 1)) // one of three with a vote has ended
	if _, back := o.gaps(failed); back || !slices.Contains(workers, last) {
		t.Errorf("a former owner has answered, or %s has the address", last)
	}
}
