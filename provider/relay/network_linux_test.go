package relay

import (
	"context"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/kernel"
)

// network is a Node with a client on its LAN and a pod, whose interface on the Node's side has no address:
//
//	client 10.9.0.2 fd09::2 --- 10.9.0.1 fd09::1 node --- 10.9.1.2 fd09:1::2 pod
//
// Addresses of level Proxy are 10.9.2.0/24 and fd09:2::/64, for which the client goes to the Node.
type network struct {
	*testing.T
	*Relay
	node, client, pod netns.NsHandle
	ended             chan error
	end               context.CancelFunc
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	manifeststest.NeedRoot(t)
	leaks := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
	n := &network{T: t, node: namespace(t), client: namespace(t), pod: namespace(t)}
	n.connect(n.client, "client", []string{"10.9.0.1/24", "fd09::1/64"}, []string{"10.9.0.2/24", "fd09::2/64"})
	n.connect(n.pod, "pod", nil, []string{"10.9.1.2/32", "fd09:1::2/128"})
	n.at(n.node, func() error {
		for _, name := range []string{"ipv4/conf/pod/proxy_arp", "ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	// As Calico does it: the pod sends everything to the Node, whose address on this interface is of the link only.
	n.route(n.node, "pod", "", "10.9.1.2/32", "10.9.1.99/32", "fd09:1::2/128")
	n.route(n.pod, "eth0", "", "0.0.0.0/0")
	n.route(n.pod, "eth0", n.linkLocal("pod"), "::/0")
	n.route(n.client, "eth0", "10.9.0.1", "10.9.2.0/24", "10.9.1.0/24")
	n.route(n.client, "eth0", "fd09::1", "fd09:2::/64", "fd09:1::/64")
	// What no table takes goes nowhere, so that it cannot be mistaken for carried.
	n.route(n.node, "client", "", "10.9.2.0/24", "fd09:2::/64")
	return n
}

func namespace(t *testing.T) netns.NsHandle {
	t.Helper()
	made := make(chan netns.NsHandle, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		handle, err := netns.New()
		if err != nil {
			t.Error(err)
			handle = netns.None()
		}
		made <- handle
	}()
	handle := <-made
	if !handle.IsOpen() {
		t.FailNow()
	}
	t.Cleanup(func() { _ = handle.Close() })
	return handle
}

func (n *network) at(where netns.NsHandle, f func() error) {
	n.Helper()
	if err := kernel.Enter(where, f); err != nil {
		n.Fatal(err)
	}
}

// connect makes a cable from the Node, with an interface of that name, to eth0 of another machine.
func (n *network) connect(to netns.NsHandle, name string, here, there []string) {
	n.Helper()
	n.at(n.node, func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(to),
		})
	})
	n.up(n.node, name, here)
	n.up(to, "eth0", there)
}

func (n *network) up(where netns.NsHandle, name string, addresses []string) {
	n.Helper()
	n.at(where, func() error {
		for _, each := range []string{"lo", name} {
			link, err := netlink.LinkByName(each)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
			for _, text := range addresses {
				address, err := netlink.ParseAddr(text)
				if err != nil {
					return err
				}
				address.Flags = 0x02 // IFA_F_NODAD: nobody else is here
				if each == name {
					if err := netlink.AddrAdd(link, address); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

func (n *network) route(where netns.NsHandle, name, via string, destinations ...string) {
	n.Helper()
	n.at(where, func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		for _, text := range destinations {
			_, to, err := net.ParseCIDR(text)
			if err != nil {
				return err
			}
			r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, Gw: net.ParseIP(via)}
			if via == "" {
				r.Scope = netlink.SCOPE_LINK
			}
			if err := netlink.RouteReplace(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// linkLocal waits for the address that an interface of the Node makes for itself.
func (n *network) linkLocal(name string) string {
	n.Helper()
	found := ""
	for began := time.Now(); found == "" && time.Since(began) < 5*time.Second; time.Sleep(20 * time.Millisecond) {
		n.at(n.node, func() error {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			list, err := netlink.AddrList(link, netlink.FAMILY_V6)
			for _, a := range list {
				if a.IP.IsLinkLocalUnicast() && a.Flags&0x40 == 0 { // IFA_F_TENTATIVE
					found = a.IP.String()
				}
			}
			return err
		})
	}
	return found
}
