package bgp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// node1 is the router's side of a session with Node 1.
	node1 = `
protocol bgp node1 {
	local 10.9.0.1 as 64500; neighbor 10.9.0.11 as 64512; hold time 3; keepalive time 1;
	ipv4 { import all; export none; };
	ipv6 { import all; export none; };
}
`
	vip4, vip6 = "192.0.2.50/32", "2001:db8:5::50/128"
	// byHoldTime is a limit for what BFD finds: sooner than the hold time, which is three seconds, no router does without it.
	byHoldTime = 2500 * time.Millisecond
)

func nodeAddresses(n string) []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("10.9.0.1" + n), netip.MustParseAddr("fd09::1" + n)}
}

func routerAt(name, address string) Router {
	return Router{Name: name, BGPPeerSpec: v1alpha1.BGPPeerSpec{Address: address, ASN: 64500, LocalASN: 64512}}
}

func paths(prefixes ...string) []Path {
	var list []Path
	for _, p := range prefixes {
		list = append(list, Path{Prefix: netip.MustParsePrefix(p)})
	}
	return list
}

// newSpeaker is that of Node 1, which leaves nothing behind.
func newSpeaker(t *testing.T) *Speaker {
	t.Helper()
	before := goleak.IgnoreCurrent()
	s, err := NewSpeaker(t.Context(), testr.NewWithOptions(t, testr.Options{Verbosity: 9}), nodeAddresses("1"), func() {})
	noError(t, err)
	t.Cleanup(func() {
		noError(t, s.Close(t.Context()))
		goleak.VerifyNone(t, before, goleak.IgnoreTopFunction(leftQueue))
	})
	return s
}

func sessionOf(t *testing.T, s *Speaker, name string) v1alpha1.BGPSession {
	t.Helper()
	for _, session := range s.Sessions(t.Context()) {
		if session.Peer == name {
			return session
		}
	}
	return v1alpha1.BGPSession{}
}

func TestSpeaker_Announces(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, strings.ReplaceAll(node1, "export none", "export all"))
	s := newSpeaker(t)
	s.SetRouters(t.Context(), []Router{routerAt("tor1", "10.9.0.1")})
	announced := paths(vip4, vip6)
	announced[0].Communities = []string{"64512:7", "4200000000:1:2"}
	noError(t, s.SetPaths(announced))

	took := eventually(t, 10*time.Second, "both families in the router's kernel", func() bool {
		return cmp.Equal(r.nextHops(t, vip4), []string{"10.9.0.11"}) && cmp.Equal(r.nextHops(t, vip6), []string{"fd09::11"})
	})
	t.Logf("first announcement after %s", took)
	route := r.birdc("show route for " + vip4 + " all")
	for _, want := range []string{"BGP.as_path: 64512", "BGP.community: (64512,7)", "BGP.large_community: (4200000000, 1, 2)"} {
		if !strings.Contains(route, want) {
			t.Errorf("route lacks %q:\n%s", want, route)
		}
	}
	// The router announces its network, which must not come back, or go to another router.
	want := v1alpha1.BGPSession{Peer: "tor1", State: "Established", Advertised: 2}
	if diff := cmp.Diff(want, sessionOf(t, s, "tor1")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(2, len(s.Announced(t.Context()))); diff != "" {
		t.Error(diff)
	}

	noError(t, s.SetPaths(paths(vip6)))
	took = eventually(t, time.Second, "one is withdrawn", func() bool { return len(r.nextHops(t, vip4)) == 0 })
	t.Logf("withdrawn after %s", took)
	if got := r.nextHops(t, vip6); len(got) == 0 {
		t.Error("the other one is gone, too")
	}
}

func TestSpeaker_SameASN(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, strings.ReplaceAll(node1, "64512", "64500"))
	s := newSpeaker(t)
	router := routerAt("tor1", "10.9.0.1")
	router.LocalASN = 64500
	pref := int64(250)
	noError(t, s.SetPaths([]Path{{Prefix: netip.MustParsePrefix(vip4), LocalPref: &pref}}))
	s.SetRouters(t.Context(), []Router{router})
	eventually(t, 10*time.Second, "the path arrives", func() bool { return len(r.nextHops(t, vip4)) == 1 })
	if route := r.birdc("show route for " + vip4 + " all"); !strings.Contains(route, "BGP.local_pref: 250") {
		t.Error(route)
	}
}

// TestSpeaker_Problems has one good router and, before it in every list, one that is wrong: it says why, and the other
// has its path, which is reported.
func TestSpeaker_Problems(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	second := strings.NewReplacer("node1", "second", "10.9.0.1 as", "10.9.0.2 as", "10.9.0.11", "10.9.0.21").Replace(node1)
	for _, tt := range []struct {
		name   string
		router string // the router's side of the bad session
		change func(*Router)
		want   string
	}{
		{
			name:   "the router has another ASN",
			router: strings.Replace(second, "as 64500", "as 64501", 1),
			want:   "10.9.0.2:179 is not in AS 64500 (asn)",
		},
		{
			name:   "the router expects another ASN",
			router: strings.Replace(second, "as 64512", "as 64513", 1),
			want:   "10.9.0.2:179 rejects this Node: it may expect another AS than 64512 (localASN)",
		},
		{
			name:   "the router has another password",
			router: strings.Replace(second, "hold time", `password "theirs"; hold time`, 1),
			change: func(r *Router) { r.Password = "ours" },
			want:   "10.9.0.2:179 does not answer: it cannot be reached, or has another password",
		},
		{
			name:   "the router wants a password",
			router: strings.Replace(second, "hold time", `password "theirs"; hold time`, 1),
			want:   "10.9.0.2:179 does not answer: it cannot be reached, or requires a password",
		},
		{
			name:   "nothing listens",
			change: func(r *Router) { r.Port = 1790 },
			want:   "10.9.0.2:1790 refuses connections: no BGP there, or not for this Node",
		},
		{
			name:   "the password is not in the Secret",
			router: second,
			change: func(r *Router) { r.Problem = "no key" },
			want:   "no key",
		},
		{
			name:   "two objects with one address",
			router: second,
			change: func(r *Router) { r.Name, r.Address, r.SourceAddress = "tor9", "10.9.0.1", "" },
			want:   "BGPPeer/tor1 has the same address",
		},
		{
			name:   "the first of two objects with one address has no password",
			router: second,
			change: func(r *Router) { r.Address, r.SourceAddress, r.Problem = "10.9.0.1", "", "no key" },
			want:   "no key",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRouter(t, node1+tt.router)
			t.Cleanup(func() { unwire(t, "node1") })
			own, err := netlink.NewHandle()
			noError(t, err)
			up(t, own, "node1", "10.9.0.21/24")
			s := newSpeaker(t)
			noError(t, s.SetPaths(paths(vip4)))
			bad := routerAt("a", "10.9.0.2")
			bad.SourceAddress = "10.9.0.21"
			if tt.change != nil {
				tt.change(&bad)
			}
			s.SetRouters(t.Context(), []Router{bad, routerAt("tor1", "10.9.0.1")})
			eventually(t, 10*time.Second, "the good router has the path", func() bool { return len(r.nextHops(t, vip4)) > 0 })
			var got v1alpha1.BGPSession
			for deadline := time.Now().Add(time.Minute); got.Message != tt.want && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
				got = sessionOf(t, s, bad.Name)
			}
			if diff := cmp.Diff(tt.want, got.Message); diff != "" {
				t.Error(diff)
			}
			said, without := damping{}.damp(time.Now(), s.Sessions(t.Context()))
			if good := slices.ContainsFunc(said, func(s v1alpha1.BGPSession) bool { return s.Peer == "tor1" && established(s) }); !good {
				t.Errorf("the good session is not established: %+v", said)
			}
			if diff := cmp.Diff(fmt.Sprint([]string{vip4}), fmt.Sprint(s.Announced(t.Context(), without...))); diff != "" {
				t.Errorf("what is reported, without %v: %s", without, diff)
			}
		})
	}
}

func TestSpeaker_BFD(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r, speaker := bfdLab(t, 100*time.Millisecond)
	// A stopped process is as silent as a dead machine, with its connections open.
	noError(t, speaker.Process.Signal(syscall.SIGSTOP))
	took := eventually(t, 3*time.Second, "the path is gone", func() bool { return len(r.nextHops(t, vip4)) == 0 })
	t.Logf("BFD of 3 x 100ms: gone after %s", took)
	if limit := min(500*time.Millisecond*slower, byHoldTime); took > limit {
		t.Errorf("took more than %s", limit)
	}
}

func TestSpeaker_Killed(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, node1)
	o := order{Addresses: nodeAddresses("1"), Routers: []Router{routerAt("tor1", "10.9.0.1")}, Paths: paths(vip4, vip6)}
	speaker, _ := speakerProcess(t, o, 0)
	there := func() bool { return len(r.nextHops(t, vip4)) == 1 && len(r.nextHops(t, vip6)) == 1 }
	eventually(t, 10*time.Second, "the paths are there", there)
	restarted := func(what string) {
		t.Helper()
		started := time.Now()
		sessions := func() string { return r.birdc("show protocols node1") }
		var back time.Duration
		// Five seconds at least, and as long as the session takes on a busy machine: the router keeps the paths for two minutes.
		for looked := 0; time.Since(started) < 5*time.Second || back == 0 && time.Since(started) < 90*time.Second; looked++ {
			if !there() {
				t.Fatalf("%s: a path is lost after %s", what, time.Since(started))
			}
			if looked%50 == 0 && back == 0 && time.Since(started) > time.Second && strings.Contains(sessions(), "Established") {
				back = time.Since(started)
			}
			time.Sleep(2 * time.Millisecond)
		}
		t.Logf("%s: no path lost, session back after %s", what, back)
		if back == 0 {
			t.Errorf("%s: no session:\n%s", what, sessions())
		}
	}
	noError(t, speaker.Process.Kill())
	speaker, in := speakerProcess(t, o, 0)
	restarted("killed")
	noError(t, in.Close())
	noError(t, speaker.Wait())
	speakerProcess(t, o, 0)
	restarted("closed")
}
