package l2

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// services gives a host an interface as kube-proxy's in mode ipvs, which is down and has many addresses, and returns them.
func (l *lan) services(host netns.NsHandle, n int) (*netlink.Handle, netlink.Link, []*netlink.Addr) {
	l.t.Helper()
	handle, err := netlink.NewHandleAt(host)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(handle.Close)
	link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "kube-ipvs0"}}
	if err := handle.LinkAdd(link); err != nil {
		l.t.Fatal(err)
	}
	var addresses []*netlink.Addr
	for i := range n {
		a := &netlink.Addr{IPNet: netlink.NewIPNet(net.IPv4(10, 96, byte(i>>8), byte(i)))}
		if err := handle.AddrAdd(link, a); err != nil {
			l.t.Fatal(err)
		}
		addresses = append(addresses, a)
	}
	return handle, link, addresses
}

// change removes and adds addresses without a pause until it is told to stop, and returns when it has.
func change(handle *netlink.Handle, link netlink.Link, addresses []*netlink.Addr, pause time.Duration) (stop func()) {
	ended, stopping := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stopping:
				return
			case <-time.After(pause):
			}
			changed := addresses[i%len(addresses)]
			_ = handle.AddrDel(link, changed)
			_ = handle.AddrAdd(link, changed)
		}
	}()
	return func() { close(stopping); <-ended }
}

// While addresses change, the kernel's list lacks others, and the kernel says so. Such a list is not used.
func TestReadKernel_ChangesMeanwhile(t *testing.T) {
	l := newLAN(t)
	host := l.plug("a", 1)
	handle, link, addresses := l.services(host, 5000)
	stop := change(handle, link, addresses, 0)
	waitFor(t, 20*time.Second, func() bool {
		_, err := readKernel(host)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			t.Fatal(err)
		}
		return err != nil
	})
	stop()
	if r, err := readKernel(host); err != nil || len(r.local) < len(addresses) {
		t.Errorf("afterwards there are %d addresses, %v; want %d", len(r.local), err, len(addresses))
	}
}

// Thousands of addresses that come and go keep no heartbeat waiting.
func TestL2_HeartbeatsWhileAddressesChange(t *testing.T) {
	a := newAgents(t, announce.Claim{Address: netip.MustParseAddr("10.8.0.100"), Probed: true})
	handle, link, addresses := a.services(a.hosts["a"], 16000)
	a.startAll()
	a.owner(a.view.Claims[0].Address, "", 20*time.Second)
	defer change(handle, link, addresses, time.Millisecond)()
	longest, last, before := time.Duration(0), time.Now(), a.udpSent()
	for began := last; time.Since(began) < 5*time.Second; time.Sleep(5 * time.Millisecond) {
		if sent := a.udpSent(); sent != before {
			longest, last, before = max(longest, time.Since(last)), time.Now(), sent
		}
	}
	t.Logf("the longest time without a heartbeat was %s", longest)
	if limit := within(3 * quorum.HeartbeatInterval); longest > limit {
		t.Errorf("no heartbeat was sent for %s, want %s at most", longest, limit)
	}
}
