package l2

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/provider/announce"
)

// udpSent is how many datagrams the host of agent "a" has sent, as the kernel counts them.
func (a *agents) udpSent() (n int) {
	a.t.Helper()
	a.at(a.hosts["a"], func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		found := regexp.MustCompile(`(?m)^Udp: \d+ \d+ \d+ (\d+)`).FindSubmatch(text)
		_, err = fmt.Sscan(string(found[1]), &n)
		return err
	})
	return n
}

// An agent sends heartbeats while there are addresses of level L2, and none where there are none; those that rest are
// there for the first address at once.
func TestL2_Idle(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	a.linger = time.Second
	claims := a.view.Claims
	a.startAll()
	perMinute := func(when string) int {
		const watched = 3 * time.Second
		before := a.udpSent()
		time.Sleep(watched)
		n := (a.udpSent() - before) * int(time.Minute/watched)
		t.Logf("%s: %d datagrams a minute", when, n)
		return n
	}
	a.owner(address, "", 5*time.Second)
	if n := perMinute("with an address"); n < 600 {
		t.Error("that are too few")
	}
	a.set(func(v *announce.View) { v.Claims = nil })
	time.Sleep(a.linger + 3*time.Second)
	if n := perMinute("without one"); n > 0 {
		t.Error("want none")
	}
	a.set(func(v *announce.View) { v.Claims = claims })
	owner, took := a.owner(address, "", 5*time.Second)
	t.Logf("%s has the address after %s", owner, took)
	if took > within(300*time.Millisecond) { // so long one that has rested listens at most
		t.Errorf("%s has the address after %s", owner, took)
	}
}
