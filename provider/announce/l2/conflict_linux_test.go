package l2

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// Machines that answer for an address in turn are one conflict: each report of it goes to all agents, and is an Event.
func TestConflict_ManyMACs(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.50")
	events, changes := 0, 0
	l := &Announcer{
		Options: Options{
			Log: logr.Discard(), Node: "n1", Changed: func() { changes++ },
			Conflict: func(announce.Claim, v1alpha1.AddressConflict) { events++ },
		},
		view: &announce.View{}, conflicts: map[netip.Addr]v1alpha1.AddressConflict{},
	}
	o := &ownership{claim: announce.Claim{Address: address}}
	hear := func(last byte) {
		l.conflict(0, o, frame{segment: &segment{name: "lan"}, mac: net.HardwareAddr{2, 0, 0, 0, 0, last}, has: address})
	}
	for i := range 1000 {
		hear(byte(i))
	}
	if events != 1 || changes != 1 || l.conflicts[address].MAC != "02:00:00:00:00:00" {
		t.Errorf("%d Events, %d reports, MAC %s, want one of the first", events, changes, l.conflicts[address].MAC)
	}
	seen := l.conflicts[address]
	seen.Seen = metav1.NewMicroTime(time.Now().Add(-2 * otherMAC))
	l.conflicts[address] = seen
	hear(7)
	if events != 2 || l.conflicts[address].MAC != "02:00:00:00:00:07" {
		t.Errorf("%d Events, MAC %s: the first one has not answered for long, and the other one is not reported", events, l.conflicts[address].MAC)
	}
}
