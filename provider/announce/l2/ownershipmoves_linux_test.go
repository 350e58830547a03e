package l2

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// TestL2_AnotherInterface: an owner follows an edit of its pool's interfaces, and an address of its machine that moves to
// another interface, at once. It repeats its gratuitous ARP once a minute, and looked at its interface no sooner.
func TestL2_AnotherInterface(t *testing.T) {
	address := netip.MustParseAddr("10.9.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true, Pool: "lan"})
	a.view.Claims[0].Candidates = []string{"a"}
	pool := func(interfaces ...string) map[string]*v1alpha1.AddressPool {
		return map[string]*v1alpha1.AddressPool{"lan": {Spec: v1alpha1.AddressPoolSpec{Interfaces: interfaces}}}
	}
	a.view.Pools = pool("lan-a")
	a.at(a.hosts["a"], func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "two"}, PeerName: "other"})
	})
	a.link("two", "10.7.0.1/24")
	a.link("other", "10.6.0.1/24")
	a.startAll()
	a.announcedOn(address, "lan-a")

	a.hushed(address)
	a.set(func(v *announce.View) { v.Pools = pool("two") })
	a.announcedOn(address, "two")

	a.hushed(address)
	a.set(func(v *announce.View) { v.Pools = pool("two", "other") })
	a.link("other", "10.9.0.1/24")
	a.announcedOn(address, "other")
}

// link gives an interface of host a an address.
func (a *agents) link(name, text string) {
	a.t.Helper()
	a.at(a.hosts["a"], func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		address, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, address); err != nil {
			return err
		}
		return netlink.LinkSetUp(link)
	})
}

// hushed is the state of an owner that has told everybody.
func (a *agents) hushed(address netip.Addr) {
	l := a.list["a"]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.owned[address].next = bootTime() + gratuitousInterval
}

// announcedOn waits until agent a answers for the address on that interface.
func (a *agents) announcedOn(address netip.Addr, name string) {
	a.t.Helper()
	want := v1alpha1.Announcement{Address: address.String(), Level: v1alpha1.LevelL2, Interface: name}
	var status v1alpha1.NodeAgentStatus
	for began := time.Now(); time.Since(began) < gratuitousInterval/2; time.Sleep(5 * time.Millisecond) {
		status = v1alpha1.NodeAgentStatus{}
		if a.list["a"].Report(&status); slices.Contains(status.Announcements, want) {
			return
		}
	}
	a.t.Fatalf("got announcements %+v, want one on %s", status.Announcements, name)
}
