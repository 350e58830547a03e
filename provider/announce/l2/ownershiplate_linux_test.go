package l2

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/ccmadm/ccmadm/provider/announce"
)

// Who asks for an address gets an answer from its owner. A process that was stopped wakes with questions in its socket, and
// its turn to look at what it owns comes behind them: it does not answer, since others have taken the address over.
func TestL2_AnswersOnlyWhatItOwnsNow(t *testing.T) {
	address := netip.MustParseAddr("2001:db8::50")
	answers := 0
	l2 := New(Options{Node: "a", Changed: func() {}, Log: funcr.New(func(_, _ string) { answers++ }, funcr.Options{})})
	s := &segment{name: "lan", mac: net.HardwareAddr{2, 0, 0, 0, 0, 1}} // without sockets each answer ends in the log
	l2.segments["lan"] = s
	claim := announce.Claim{Address: address, Candidates: []string{"a"}}
	l2.quorum.SetMembers(bootTime(), []string{"a"}, []string{"a"}, nil)
	l2.quorum.Request(bootTime(), address)
	for end := bootTime() + 5*time.Second; !l2.quorum.Owns(bootTime(), address) && bootTime() < end; time.Sleep(10 * time.Millisecond) {
		l2.quorum.Tick(bootTime()) // one that begins grants nothing while grants of a former one may be good
	}
	l2.owned[address] = &ownership{claim: claim, segment: s, announced: true}
	question := frame{segment: s, mac: net.HardwareAddr{2, 0, 0, 0, 0, 9}, from: netip.MustParseAddr("2001:db8::9"), asks: address}
	if l2.heard(question); answers != 1 {
		t.Fatalf("the owner has answered %d times: nothing is tested", answers)
	}
	l2.quorum.Drop(bootTime(), address)
	if l2.heard(question); answers != 1 {
		t.Error("it answers for what it does not own any more")
	}
}
