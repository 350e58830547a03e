package announce

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// carryAgain is when an owner looks again whether packets of level Proxy are taken.
const carryAgain = 20 * time.Millisecond

// Carrier takes connections to addresses of level Proxy that this Node owns.
type Carrier interface {
	// Carry replaces these addresses. It does not wait.
	Carry(addresses []netip.Addr)
	// Carries says whether packets for an address are taken. It does not wait.
	Carries(address netip.Addr) bool
}

// carry tells the carrier what is owned, where that has changed.
func (l *L2) carry(owned []netip.Addr) {
	if l.Carrier != nil && !slices.Equal(owned, l.carried) {
		l.Carrier.Carry(owned)
		l.carried = owned
	}
}

// carries says whether packets for the address are taken: those of level L2 kube-proxy takes on every Node.
func (l *L2) carries(c Claim) bool {
	return c.Level != v1alpha1.LevelProxy || l.Carrier != nil && l.Carrier.Carries(c.Address)
}
