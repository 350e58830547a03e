package l2

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/provider/announce"
)

// TestL2_Preferred: real agents on a wire. The preferred Node has the address; when its agent dies another answers within the time of
// every failover, and when it is back it takes the address after its time, without a moment in which two answer.
func TestL2_Preferred(t *testing.T) {
	const returnAfter = 3 * time.Second
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true, Preferred: []string{"b"}, ReturnAfter: returnAfter})
	for name := range a.view.Agents {
		a.reportInterface(name)
	}
	a.startAll()
	if got, _ := a.owner(address, "", 10*time.Second); got != "b" {
		t.Fatalf("%s has the address, want the preferred b", got)
	}
	o := a.observe(address)
	a.kill("b")
	if got, took := a.owner(address, "b", 5*time.Second); got == "b" || took > within(2*time.Second) {
		t.Errorf("%s has it after %s", got, took)
	}
	a.start("b")
	back := time.Now()
	for !a.list["b"].Owns(address) {
		if time.Since(back) > returnAfter+time.Minute {
			t.Fatal("the address does not move back to the preferred Node")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if took := time.Since(back); took < returnAfter-200*time.Millisecond {
		t.Errorf("it moved back after %s, want not before %s", took, returnAfter)
	}
	time.Sleep(time.Second)
	if longest, twice := o.gaps(back); twice || longest > within(300*time.Millisecond) {
		t.Errorf("while it moved back there was no answer for %s; the former owner answered after the new one: %t", longest, twice)
	}
}
