package announce

import (
	"net/netip"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// An address of IPv6 on an interface that has none opens its sockets again. Those that others were answered by are needed
// again at once, not when these addresses are due the next time.
func TestL2_SocketsOpenedAgain(t *testing.T) {
	old := Claim{Address: netip.MustParseAddr("10.8.0.100"), Level: v1alpha1.LevelL2, Pool: "a", Probed: true, Candidates: []string{"a"}}
	fresh := old
	fresh.Address = netip.MustParseAddr("fd08::100")
	a := newAgents(t)
	a.at(a.hosts["a"], func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/lan-a/disable_ipv6", []byte("1"), 0)
	})
	a.view.Pools = map[string]*v1alpha1.AddressPool{"a": {
		ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.AddressPoolSpec{Interfaces: []string{"lan-a"}},
	}}
	a.view.Claims = []Claim{old}
	a.view.Members = []string{"a"} // what others say has it look at all addresses
	a.startAll()
	a.owner(old.Address, "", 10*time.Second)
	o := a.observe(old.Address)
	var calm time.Duration
	for _, d := range shouts() {
		calm = max(calm, d)
	}
	time.Sleep(calm + 500*time.Millisecond) // from now on it is due once a minute
	began := time.Now()
	a.set(func(v *View) { v.Claims = []Claim{old, fresh} })
	time.Sleep(900 * time.Millisecond)
	if gap, _ := o.gaps(began); gap > 300*time.Millisecond {
		t.Errorf("nobody answered for %s", gap)
	}
}
