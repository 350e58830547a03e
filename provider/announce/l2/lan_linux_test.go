package l2

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// lan is a bridge in a network namespace, with hosts in their own:
//
//	switch: br0      host N: lan-NAME 10.8.0.N fd08::N
type lan struct {
	t     *testing.T
	sw    netns.NsHandle
	hosts map[string]netns.NsHandle
	ports map[string]netlink.Link
}

// newLAN makes one.
func newLAN(t *testing.T) *lan {
	t.Helper()
	manifeststest.NeedRoot(t)
	l := &lan{t: t, hosts: map[string]netns.NsHandle{}, ports: map[string]netlink.Link{}}
	l.sw = l.namespace()
	l.at(l.sw, func() error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}, MulticastSnooping: new(bool)}
		if err := netlink.LinkAdd(bridge); err != nil {
			return err
		}
		return netlink.LinkSetUp(bridge)
	})
	return l
}

// namespace makes one that is gone with its last handle.
func (l *lan) namespace() netns.NsHandle {
	l.t.Helper()
	made := make(chan netns.NsHandle, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		handle, err := netns.New()
		if err != nil {
			l.t.Error(err)
			handle = netns.None()
		}
		made <- handle
	}()
	handle := <-made
	if !handle.IsOpen() {
		l.t.FailNow()
	}
	l.t.Cleanup(func() { _ = handle.Close() })
	return handle
}

func (l *lan) at(namespace netns.NsHandle, f func() error) {
	l.t.Helper()
	if err := enter(namespace, f); err != nil {
		l.t.Fatal(err)
	}
}

// plug connects a host whose addresses end with the number.
func (l *lan) plug(name string, number int) netns.NsHandle {
	l.t.Helper()
	host := l.namespace()
	l.hosts[name] = host
	port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "p-" + name}, PeerName: "lan-" + name, PeerNamespace: netlink.NsFd(host)}
	l.at(l.sw, func() error {
		if err := netlink.LinkAdd(port); err != nil {
			return err
		}
		bridge, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(port, bridge); err != nil {
			return err
		}
		l.ports[name] = port
		return netlink.LinkSetUp(port)
	})
	l.at(host, func() error {
		link, err := netlink.LinkByName("lan-" + name)
		if err != nil {
			return err
		}
		for _, text := range []string{fmt.Sprintf("10.8.0.%d/24", number), fmt.Sprintf("fd08::%d/64", number)} {
			address, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			address.Flags = 0x02 // IFA_F_NODAD: nobody else is here
			if err := netlink.AddrAdd(link, address); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(link)
	})
	return host
}

// port puts the bridge's port of a host up or down: that is a cable, or a power cut as the others see it.
func (l *lan) port(name string, up bool) {
	l.t.Helper()
	l.at(l.sw, func() error {
		link, err := netlink.LinkByName("p-" + name)
		if err != nil {
			return err
		}
		if up {
			return netlink.LinkSetUp(link)
		}
		return netlink.LinkSetDown(link)
	})
}
