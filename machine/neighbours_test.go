package machine

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// bridged puts the test into a network of its own: v0, v1 and v2 on one bridge, the address on v1 alone.
func bridged(t *testing.T, address string) {
	t.Helper()
	manifeststest.NeedRoot(t)
	runtime.LockOSThread() // and never unlocked: the thread, and the namespace, end with the test
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	for _, name := range []string{"all", "default"} {
		must(t, os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_dad", []byte("0"), 0))
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br"}}
	must(t, netlink.LinkAdd(bridge))
	must(t, netlink.LinkSetUp(bridge))
	for _, end := range []string{"v0", "v1", "v2"} {
		must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: end}, PeerName: "p" + end}))
		port, err := netlink.LinkByName("p" + end)
		must(t, err)
		link, err := netlink.LinkByName(end)
		must(t, err)
		must(t, netlink.LinkSetMaster(port, bridge))
		must(t, netlink.LinkSetUp(port))
		must(t, netlink.LinkSetUp(link))
	}
	for name, text := range map[string]string{"v0": "192.0.2.1/24", "v1": address} {
		link, err := netlink.LinkByName(name)
		must(t, err)
		addr, err := netlink.ParseAddr(text)
		must(t, err)
		addr.Flags = unix.IFA_F_NODAD
		must(t, netlink.AddrAdd(link, addr))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Linux answers on every interface for every address that it has, unless arp_ignore says otherwise: that makes one
// machine look like one that answers, or two.
func TestAskNeighbours(t *testing.T) {
	for _, tt := range []struct {
		name, address, ask, ignore string
		want                       string // interfaces whose MACs answer
	}{
		{name: "one has it", address: "192.0.2.50/24", ask: "192.0.2.50", ignore: "1", want: "v1"},
		{name: "two answer", address: "192.0.2.50/24", ask: "192.0.2.50", ignore: "0", want: "v1 v2"},
		{name: "nobody has it", address: "192.0.2.50/24", ask: "192.0.2.51", ignore: "1"},
		{name: "IPv6", address: "2001:db8::50/64", ask: "2001:db8::50", ignore: "1", want: "v1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bridged(t, tt.address)
			for name, value := range map[string]string{"all": tt.ignore, "br": "1"} {
				must(t, os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/arp_ignore", []byte(value), 0))
			}
			ifi, err := net.InterfaceByName("v0")
			must(t, err)
			var got string
			var start time.Time
			var found []Neighbour
			// The bridge's ports begin to forward, and the kernel tries out the link-local address: on a busy machine that takes seconds.
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				start = time.Now()
				found, err = AskNeighbours(t.Context(), ifi, netip.MustParseAddr(tt.ask))
				var names []string
				for _, n := range found {
					names = append(names, nameOf(t, n.MAC))
				}
				slices.Sort(names)
				got = strings.Join(names, " ")
				if err == nil && got == tt.want || time.Now().After(deadline) {
					break
				}
			}
			must(t, err)
			if got != tt.want {
				t.Errorf("answers come from %q, want %q: %+v", got, tt.want, found)
			}
			if took := time.Since(start); took > NeighbourPatience+10*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestFindInterface(t *testing.T) {
	bridged(t, "198.51.100.7/24")
	for ask, want := range map[string]string{"192.0.2.77": "v0", "198.51.100.77": "v1", "203.0.113.1": ""} {
		ifi, err := FindInterface("", netip.MustParseAddr(ask))
		if want == "" && err == nil || want != "" && (err != nil || ifi.Name != want) {
			t.Errorf("%s: got %v, %v, want %q", ask, ifi, err, want)
		}
	}
	if _, err := FindInterface("nosuch0", netip.MustParseAddr("192.0.2.77")); err == nil {
		t.Error("an interface is found that is not there")
	}
}

func nameOf(t *testing.T, mac string) string {
	t.Helper()
	all, err := net.Interfaces()
	must(t, err)
	for _, i := range all {
		if i.HardwareAddr.String() == mac {
			return i.Name
		}
	}
	return mac
}
