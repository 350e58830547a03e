package l2

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// Each look is at all addresses. Those that have been announced for a while are no reason for more than one a second, however many there
// are, and repeat their gratuitous ARP in time; a new one is due when it is.
func TestUntilDue(t *testing.T) {
	l := &Announcer{owned: map[netip.Addr]*ownership{}}
	start := quorum.Instant(time.Hour)
	for i := range 1000 {
		l.owned[netip.AddrFrom4([4]byte{10, 8, byte(i / 250), byte(i % 250)})] = &ownership{
			segment: &segment{}, announced: true, gratuitous: len(gratuitousTimes()), next: start + time.Duration(i)*gratuitousInterval/1000,
		}
	}
	looks, now := 0, start
	for ; now < start+gratuitousInterval; looks++ {
		now += l.untilDue(now)
		for address, o := range l.owned {
			if late := now - o.next; late > gratuitousLate {
				t.Errorf("%s is late by %s", address, late)
			}
			if now >= o.next {
				o.next += gratuitousInterval
			}
		}
	}
	if looks > 61 {
		t.Errorf("a thousand addresses are looked at %d times a minute, want 61 at most", looks)
	}
	for name, o := range map[string]*ownership{
		"is new":              {segment: &segment{}},
		"is announced":        {segment: &segment{}, announced: true, gratuitous: 3},
		"has no interface":    {announced: true, gratuitous: len(gratuitousTimes())},
		"was never announced": {},
	} {
		o.next = now + 10*time.Millisecond
		l.owned[netip.MustParseAddr("10.8.9.1")] = o
		if got := l.untilDue(now); got > 10*time.Millisecond {
			t.Errorf("an address that %s is due in %s, want 10ms", name, got)
		}
	}
}
