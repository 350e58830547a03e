package bgp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// fabric is the router's side of unnumbered sessions: it advertises itself on a link without addresses of a network, and takes
// any session from the other end.
const fabric = `
protocol radv { interface "swp*" { min ra interval 3; max ra interval 4; default lifetime 0; }; }
protocol bgp swp1 {
	local as 64500; neighbor range fe80::/10 as 64512; interface "swp1"; dynamic name "swp1_"; hold time 3; keepalive time 1;
	ipv4 { EXTENDED import all; export none; };
	ipv6 { import all; export none; };
}
`

const extendedNextHop = "extended next hop on;"

// pointToPoint connects the namespace of the test, with eth1, to the router, with swp1. Both have link-local addresses only.
func (r *birdRouter) pointToPoint(t *testing.T) (own netip.Addr) {
	t.Helper()
	node, err := netlink.NewHandle()
	noError(t, err)
	t.Cleanup(node.Close)
	noError(t, node.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth1"}, PeerName: "swp1"}))
	far, err := node.LinkByName("swp1")
	noError(t, err)
	noError(t, node.LinkSetNsPid(far, r.pid))
	up(t, r.net, "swp1")
	up(t, node, "eth1")
	linkLocal(t, r.net, "swp1")
	return linkLocal(t, node, "eth1")
}

// linkLocal is the address that the kernel gives an interface, once no other machine has it.
func linkLocal(t *testing.T, h *netlink.Handle, name string) (found netip.Addr) {
	t.Helper()
	eventually(t, 10*time.Second, "a link-local address of "+name, func() bool {
		link, err := h.LinkByName(name)
		noError(t, err)
		addresses, err := h.AddrList(link, unix.AF_INET6)
		noError(t, err)
		for _, a := range addresses {
			if a.Flags&unix.IFA_F_TENTATIVE == 0 && a.IP.IsLinkLocalUnicast() {
				found, _ = netip.AddrFromSlice(a.IP)
			}
		}
		return found.IsValid()
	})
	return found
}

// via are the next hops that the router's kernel has for a prefix, of the other family, too.
func (r *birdRouter) via(t *testing.T, prefix string) []string {
	t.Helper()
	hops := r.nextHops(t, prefix)
	dst, err := netlink.ParseIPNet(prefix)
	noError(t, err)
	routes, err := r.net.RouteListFiltered(unix.AF_INET, &netlink.Route{Dst: dst}, netlink.RT_FILTER_DST)
	noError(t, err)
	for _, route := range routes {
		if via, is := route.Via.(*netlink.Via); is {
			hops = append(hops, via.Addr.String())
		}
	}
	return hops
}

// listenAtVIP has the namespace of the test take connections at the address, as kube-proxy's rules would.
func listenAtVIP(t *testing.T) {
	t.Helper()
	node, err := netlink.NewHandle()
	noError(t, err)
	t.Cleanup(node.Close)
	up(t, node, "lo", vip4)
	listener, err := net.Listen("tcp", service)
	noError(t, err)
	t.Cleanup(func() { noError(t, listener.Close()) })
}

func unnumberedRouter() Router {
	return Router{Name: "leaf", BGPPeerSpec: v1alpha1.BGPPeerSpec{Interface: "eth1", ASN: 64500, LocalASN: 64512}}
}

func TestSpeaker_Unnumbered(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, strings.ReplaceAll(fabric, "EXTENDED", extendedNextHop))
	s := newSpeaker(t)
	noError(t, s.SetPaths(paths(vip4, vip6)))
	s.SetRouters(t.Context(), []Router{unnumberedRouter()})
	eventually(t, 2*time.Second, "the reason that there is no session", func() bool {
		return strings.HasPrefix(sessionOf(t, s, "leaf").Message, "interface eth1: ")
	})
	t.Log(sessionOf(t, s, "leaf").Message)

	own := r.pointToPoint(t)
	want := []string{own.String()}
	there := func() bool { return cmp.Equal(r.via(t, vip4), want) && cmp.Equal(r.via(t, vip6), want) }
	took := eventually(t, 20*time.Second, "both families in the router's kernel", there)
	t.Logf("first announcement after %s", took)
	session := v1alpha1.BGPSession{Peer: "leaf", State: "Established", Advertised: 2}
	if diff := cmp.Diff(session, sessionOf(t, s, "leaf")); diff != "" {
		t.Error(diff)
	}
	if got := s.Announced(t.Context()); len(got) != 2 {
		t.Errorf("announced are %v", got)
	}
	listenAtVIP(t)
	eventually(t, time.Second, "a connection by an IPv4 route with an IPv6 next hop", func() bool { return r.dial() == nil })

	// Another router at the other end has another address.
	other, err := r.net.LinkByName("swp1")
	noError(t, err)
	noError(t, r.net.LinkSetDown(other))
	eventually(t, 5*time.Second, "that there is no link is known", func() bool {
		return s.neighbors.resolve(Router{BGPPeerSpec: v1alpha1.BGPPeerSpec{Interface: "eth1"}}).Warning == "interface eth1: it has no link"
	})
	noError(t, r.net.LinkSetHardwareAddr(other, net.HardwareAddr{2, 0, 0, 0, 0, 9}))
	noError(t, r.net.LinkSetUp(other))
	took = eventually(t, 30*time.Second, "the paths are back", there)
	t.Logf("back by another router after %s", took)
}

// Without extended next hops a router has IPv6 only, and the session says so. Its autonomous system is the one that it names.
func TestSpeaker_UnnumberedWithoutIPv4(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, strings.ReplaceAll(fabric, "EXTENDED", ""))
	own := r.pointToPoint(t)
	s := newSpeaker(t)
	noError(t, s.SetPaths(paths(vip4, vip6)))
	router := unnumberedRouter()
	router.ASN = 0
	s.SetRouters(t.Context(), []Router{router})
	eventually(t, 20*time.Second, "IPv6 in the router's kernel", func() bool { return cmp.Equal(r.via(t, vip6), []string{own.String()}) })
	if route := r.birdc("show route for " + vip6 + " all"); !strings.Contains(route, "BGP.as_path: 64512\n") {
		t.Error(route)
	}
	if got := r.via(t, vip4); len(got) > 0 {
		t.Errorf("IPv4 by %v", got)
	}
	if got := s.Announced(t.Context()); len(got) != 1 || got[0].String() != vip6 {
		t.Errorf("announced are %v", got)
	}
	if got := sessionOf(t, s, "leaf").Message; got != noExtendedNextHop {
		t.Errorf("the session says %q", got)
	}
}

// Beside a router with an address, each session has next hops of its own.
func TestSpeaker_UnnumberedBesideNumbered(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, node1+strings.ReplaceAll(fabric, "EXTENDED", extendedNextHop))
	own := r.pointToPoint(t)
	s := newSpeaker(t)
	noError(t, s.SetPaths(paths(vip4, vip6)))
	s.SetRouters(t.Context(), []Router{routerAt("tor1", "10.9.0.1"), unnumberedRouter()})
	have := func(prefix string, hops ...string) bool {
		route := r.birdc("show route for " + prefix + " all")
		for _, hop := range hops {
			if !strings.Contains(route, "BGP.next_hop: "+hop+"\n") {
				return false
			}
		}
		return strings.Count(route, "BGP.next_hop: ") == len(hops)
	}
	linkLocal := ":: " + own.String() // as BIRD writes it
	eventually(t, 20*time.Second, "IPv4 by both", func() bool { return have(vip4, "10.9.0.11", linkLocal) })
	eventually(t, 5*time.Second, "IPv6 by both", func() bool { return have(vip6, "fd09::11", linkLocal) })
	// What comes and goes by interface is no reason to end a session by address.
	before := r.establishedAt(t, "node1")
	s.SetRouters(t.Context(), []Router{routerAt("tor1", "10.9.0.1")})
	eventually(t, 5*time.Second, "IPv4 by one", func() bool { return have(vip4, "10.9.0.11") })
	if after := r.establishedAt(t, "node1"); after.Sub(before).Abs() > 900*time.Millisecond {
		t.Errorf("the session by address is up since %s, and was since %s", after, before)
	}
}

// establishedAt is since when a session is up. BIRD works it out anew each time it is asked, so that it differs by a millisecond.
func (r *birdRouter) establishedAt(t *testing.T, protocol string) time.Time {
	t.Helper()
	m := regexp.MustCompile(` up\s+(\S+)\s+Established`).FindStringSubmatch(r.birdc("show protocols " + protocol))
	if m == nil {
		t.Fatalf("%s has no session", protocol)
	}
	at, err := time.Parse("15:04:05.000", m[1])
	noError(t, err)
	return at
}

func TestLink_Note(t *testing.T) {
	a, b, c := netip.MustParseAddr("fe80::a%eth1"), netip.MustParseAddr("fe80::b%eth1"), netip.MustParseAddr("fe80::c%eth1")
	start := time.Unix(1000, 0)
	l := &link{name: "eth1"}
	for _, step := range []struct {
		from    netip.Addr
		after   time.Duration
		changed bool
		first   netip.Addr
		other   netip.Addr
	}{
		{from: a, changed: true, first: a},
		{from: a, after: 10 * time.Second, first: a},
		{from: b, after: 11 * time.Second, changed: true, first: a, other: b},
		{from: c, after: 12 * time.Second, first: a, other: b}, // a crowd is no news
		{from: a, after: 20 * time.Second, first: a, other: b},
		{from: a, after: 30 * time.Second, first: a, other: b},
		{from: a, after: 41 * time.Second, changed: true, first: a}, // the other one went
		{from: b, after: 70 * time.Second, changed: true, first: a, other: b},
		{from: b, after: 71 * time.Second, changed: true, first: b}, // a was replaced
	} {
		if got := l.note(step.from, start.Add(step.after)); got != step.changed {
			t.Errorf("%s after %s: changed %t", step.from, step.after, got)
		}
		if l.first.address != step.first || l.other.address != step.other {
			t.Errorf("%s after %s: the router is %s, another one %s", step.from, step.after, l.first.address, l.other.address)
		}
	}
}

// frrLeaf is the switch's side as FRR has it, and so Cumulus and SONiC: it sends router advertisements by itself, and takes a session
// from an address only that has sent it some.
const frrLeaf = `
hostname leaf
router bgp 64500
 bgp router-id 10.9.0.1
 no bgp ebgp-requires-policy
 neighbor swp1 interface remote-as 64512
 address-family ipv6 unicast
  neighbor swp1 activate
`

// frr starts a program of FRR in the router's namespace, and in the lab's Debian, where its users are.
func (r *birdRouter) frr(t *testing.T, program string, args ...string) {
	t.Helper()
	debian, err := manifeststest.Debian("usr/lib/frr/" + program)
	noError(t, err)
	inside := append([]string{
		"chroot", debian, "/usr/lib/frr/" + program, "-P", "0", "-z", "/mnt/zserv",
		"-i", "/mnt/" + program + ".pid", "--vty_socket", "/mnt",
	}, args...)
	script := `mount --bind "$0" "$1/mnt" && shift && exec "$@"`
	start(t, exec.Command("nsenter", append([]string{
		fmt.Sprintf("--net=/proc/%d/ns/net", r.pid), "unshare", "--mount", "sh", "-c", script, r.dir, debian,
	}, inside...)...))
}

func TestSpeaker_UnnumberedFRR(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newNamespace(t)
	r.pointToPoint(t)
	noError(t, os.WriteFile(filepath.Join(r.dir, "frr.conf"), []byte(frrLeaf), 0o644))
	noError(t, os.Chmod(r.dir, 0o777)) // FRR's programs run as its user
	r.frr(t, "zebra")
	eventually(t, 10*time.Second, "zebra listens", func() bool {
		_, err := os.Stat(filepath.Join(r.dir, "zserv"))
		return err == nil
	})
	r.frr(t, "bgpd", "-f", "/mnt/frr.conf")
	s := newSpeaker(t)
	noError(t, s.SetPaths(paths(vip4, vip6)))
	s.SetRouters(t.Context(), []Router{unnumberedRouter()})
	listenAtVIP(t)
	took := eventually(t, 30*time.Second, "a connection by an IPv4 route with an IPv6 next hop", func() bool { return r.dial() == nil })
	t.Logf("first connection after %s", took)
	eventually(t, 10*time.Second, "both are announced", func() bool { return len(s.Announced(t.Context())) == 2 })
	if got := sessionOf(t, s, "leaf"); got.State != stateEstablished || got.Message != "" {
		t.Errorf("the session is %+v", got)
	}
}

// A cable that is out is said once.
func TestNeighbors_NoLink(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newNamespace(t)
	r.pointToPoint(t)
	router, err := r.net.LinkByName("swp1")
	noError(t, err)
	var changes atomic.Int32
	n := newNeighbors(func() { changes.Add(1) })
	n.listen(t.Context(), map[string]bool{"eth1": true})
	defer n.close()
	problem := func() string { return n.resolve(Router{BGPPeerSpec: v1alpha1.BGPPeerSpec{Interface: "eth1"}}).Problem }
	eventually(t, 5*time.Second, "it listens", func() bool { return problem() == "interface eth1: no router advertisement was received yet" })
	noError(t, r.net.LinkSetDown(router))
	eventually(t, 5*time.Second, "it knows that there is no link", func() bool { return problem() == "interface eth1: it has no link" })
	before := changes.Load()
	time.Sleep(3 * time.Second)
	if after := changes.Load(); after != before || problem() != "interface eth1: it has no link" {
		t.Errorf("%d changes without one, and the problem is %q", after-before, problem())
	}
}

// Other Nodes on the link are no routers.
func TestIsRouter(t *testing.T) {
	for _, tt := range []struct {
		name    string
		message ndp.Message
		want    bool
	}{
		{name: "an agent", message: &ndp.RouterAdvertisement{}},
		{name: "a router that is no default router", message: &ndp.RouterAdvertisement{CurrentHopLimit: 64}, want: true},
		{name: "a default router", message: &ndp.RouterAdvertisement{RouterLifetime: time.Minute}, want: true},
		{name: "a neighbor", message: &ndp.NeighborAdvertisement{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := isRouter(tt.message); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
