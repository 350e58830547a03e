package l2

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// A client that has the former owner's MAC in its neighbour cache, and does not ask, learns the new one.
func TestL2_ClientThatDoesNotAsk(t *testing.T) {
	for _, text := range []string{"10.8.0.100", "fd08::100"} {
		t.Run(text, func(t *testing.T) {
			address := netip.MustParseAddr(text)
			a := newAgents(t, announce.Claim{Address: address, Probed: true})
			a.plug("client", 50)
			a.startAll()
			first, _ := a.owner(address, "", 10*time.Second)
			before := a.cached("client", address, a.mac(first))
			a.port(first, false)
			second, _ := a.owner(address, first, 5*time.Second)
			want := a.mac(second)
			got := before
			for began := time.Now(); !bytes.Equal(got, want) && time.Since(began) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
				got = a.cached("client", address, nil)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is at %s for the client, and %s has it, with %s; before it was at %s", address, got, second, want, before)
			}
		})
	}
}

// cached is the MAC in a host's neighbour cache, where it is put first unless it is nil.
func (a *agents) cached(host string, address netip.Addr, put net.HardwareAddr) (found net.HardwareAddr) {
	a.t.Helper()
	a.at(a.hosts[host], func() error {
		link, err := netlink.LinkByName("lan-" + host)
		if err != nil {
			return err
		}
		if put != nil {
			entry := &netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_STALE, IP: address.AsSlice(), HardwareAddr: put}
			if err := netlink.NeighSet(entry); err != nil {
				return err
			}
		}
		entries, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
		for _, entry := range entries {
			if entry.IP.Equal(address.AsSlice()) {
				found = entry.HardwareAddr
			}
		}
		return err
	})
	return found
}

func (a *agents) mac(name string) net.HardwareAddr {
	a.t.Helper()
	status := v1alpha1.NodeAgentStatus{}
	a.list[name].Report(&status)
	for _, i := range status.Interfaces {
		if strings.HasPrefix(i.Name, "lan-") {
			mac, err := net.ParseMAC(i.MAC)
			if err != nil {
				a.t.Fatal(err)
			}
			return mac
		}
	}
	a.t.Fatalf("%s reports no interface", name)
	return nil
}

func waitFor(t *testing.T, within time.Duration, is func() bool) {
	t.Helper()
	within = max(within, 30*time.Second) // however soon it is so on a machine that is not busy
	for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("it is not so within %s", within)
		}
	}
}
