package l2

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// Each Node has the address on an interface that is down, as on kube-ipvs0 without strictARP: all kernels answer for it. It
// is reported by all of them, no Node is taken for a second agent, and the owner keeps the address. With arp_ignore it is
// over.
func TestL2_KernelAnswers(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, announce.Claim{Address: address, Probed: true})
	a.view.Claims[0].Candidates = []string{"c"}
	for _, name := range a.view.Members {
		a.reportInterface(name)
		a.at(a.hosts[name], func() error {
			ipvs := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "kube-ipvs0"}}
			if err := netlink.LinkAdd(ipvs); err != nil {
				return err
			}
			return netlink.AddrAdd(ipvs, &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(32, 32)}})
		})
	}
	a.startAll()
	a.owner(address, "", 10*time.Second)
	reports := func(name string) []v1alpha1.KernelAnswer {
		var status v1alpha1.NodeAgentStatus
		a.list[name].Report(&status)
		return status.KernelAnswers
	}
	a.set(func(v *announce.View) { // the agents learn what the others report
		for _, name := range v.Members {
			want := []v1alpha1.KernelAnswer{{Address: address.String(), On: "kube-ipvs0", Interface: "lan-" + name}}
			if diff := cmp.Diff(want, reports(name)); diff != "" {
				t.Errorf("%s reports (-want +got):\n%s", name, diff)
			}
			v.Agents[name].Status.KernelAnswers = want
		}
	})
	kernels := a.observe(address)
	time.Sleep(settled + time.Second)
	kernels.mu.Lock()
	macs := map[string]bool{}
	for _, x := range kernels.answers {
		macs[x.mac] = true
	}
	kernels.mu.Unlock()
	if len(macs) != 3 {
		t.Fatalf("%d machines answer for the address: this shows nothing", len(macs))
	}
	other, err := openSegment(a.hosts["a"], "lan-a", func(frame) {}) // an answer of that kernel, which the owner hears, too
	if err != nil {
		t.Fatal(err)
	}
	defer func() { other.close(); other.ended.Wait() }()
	for range 3 {
		if err := other.sendGratuitousARP(address); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if counts := a.list["c"].Counts(); counts.Takeovers != 1 && !raceDetector || counts.Owned != 1 {
		t.Errorf("the owner took the address %d times, and owns %d", counts.Takeovers, counts.Owned)
	}
	if _, conflict := a.announced(address); !conflict {
		t.Error("no conflict is reported")
	}
	for _, name := range a.view.Members {
		a.at(a.hosts[name], func() error {
			return os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0)
		})
		if got := reports(name); got != nil {
			t.Errorf("with arp_ignore %s reports %v", name, got)
		}
	}
}

func TestAnswers(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, tt := range []struct {
		address netip.Addr
		here    bool
		ignore  int
		want    bool
	}{
		{v4, false, 0, true},
		{v4, false, 1, false},
		{v4, true, 1, true},
		{v4, false, 2, false},
		{v4, false, 3, true},
		{v4, true, 8, false},
		{v6, false, 0, false},
		{v6, true, 8, true},
	} {
		if got := answers(tt.address, tt.here, tt.ignore); got != tt.want {
			t.Errorf("%s, on the interface itself %t, arp_ignore %d: got %t", tt.address, tt.here, tt.ignore, got)
		}
	}
}
