package bgp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestRoutersOf(t *testing.T) {
	peer := func(name, key string, nodes *metav1.LabelSelector) *v1alpha1.BGPPeer {
		return &v1alpha1.BGPPeer{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.BGPPeerSpec{Address: "192.0.2.1", PasswordKey: key, Nodes: nodes},
		}
	}
	rack := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"rack": name}}
	}
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: "Near"}}}
	peers := []*v1alpha1.BGPPeer{
		peer("z", "", nil),
		peer("here", "tor", rack("a")),
		peer("elsewhere", "tor", rack("b")),
		peer("locked", "gone", nil),
		peer("broken", "", broken),
	}
	type short struct{ Name, Password, Problem string }
	var got []short
	for _, r := range RoutersOf(map[string]string{"rack": "a"}, peers, map[string][]byte{"tor": []byte("secret")}, nil) {
		got = append(got, short{r.Name, r.Password, r.Problem})
	}
	want := []short{
		{Name: "broken", Problem: `spec.nodes: "Near" is not a valid label selector operator`},
		{Name: "here", Password: "secret"},
		{Name: "locked", Problem: `Secret kube-system/ccmadm-bgp has no key "gone"`},
		{Name: "z"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	unread := RoutersOf(nil, peers[3:4], nil, nil)[0].Problem
	if diff := cmp.Diff("Secret kube-system/ccmadm-bgp was not read yet", unread); diff != "" {
		t.Error(diff)
	}
}

func TestRoutersOf_PasswordOfBefore(t *testing.T) {
	const lost = `Secret kube-system/ccmadm-bgp has no key "tor": still using the last password`
	known := []Router{{Name: "tor1", Password: "old"}}
	for _, tt := range []struct {
		name      string
		key       string
		passwords map[string][]byte
		before    []Router
		want      Router
	}{
		{name: "the Secret is gone", key: "tor", passwords: map[string][]byte{}, before: known, want: Router{Password: "old", Warning: lost}},
		{
			name: "the key is empty", key: "tor", passwords: map[string][]byte{"tor": nil}, before: known,
			want: Router{Password: "old", Warning: lost},
		},
		{
			name: "the key has another value", key: "tor", passwords: map[string][]byte{"tor": []byte("new")}, before: known,
			want: Router{Password: "new"},
		},
		{name: "no key is named any more", passwords: map[string][]byte{}, before: known},
		{
			name: "there was no password before", key: "tor", passwords: map[string][]byte{}, before: []Router{{Name: "tor1"}},
			want: Router{Problem: `Secret kube-system/ccmadm-bgp has no key "tor"`},
		},
		{
			name: "the password was another router's", key: "tor", passwords: map[string][]byte{},
			before: []Router{{Name: "tor2", Password: "old"}},
			want:   Router{Problem: `Secret kube-system/ccmadm-bgp has no key "tor"`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			peer := &v1alpha1.BGPPeer{ObjectMeta: metav1.ObjectMeta{Name: "tor1"}, Spec: v1alpha1.BGPPeerSpec{PasswordKey: tt.key}}
			tt.want.Name, tt.want.PasswordKey = "tor1", tt.key
			got := RoutersOf(nil, []*v1alpha1.BGPPeer{peer}, tt.passwords, tt.before)
			if diff := cmp.Diff([]Router{tt.want}, got); diff != "" {
				t.Error(diff)
			}
			again := RoutersOf(nil, []*v1alpha1.BGPPeer{peer}, tt.passwords, got)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("the next time: %s", diff)
			}
		})
	}
}

func TestDistinct_Keepalive(t *testing.T) {
	negative := Router{BGPPeerSpec: v1alpha1.BGPPeerSpec{
		Address: "192.0.2.1", Keepalive: &metav1.Duration{Duration: -time.Second},
	}}
	if got, want := distinct([]Router{negative})[0].Problem, "spec.keepalive -1s is not 1s at least"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSpeaker_NextHop(t *testing.T) {
	own := netip.MustParseAddr("10.9.0.11")
	v4 := Router{Name: "a", BGPPeerSpec: v1alpha1.BGPPeerSpec{Address: "192.0.2.1"}}
	v6 := Router{Name: "b", BGPPeerSpec: v1alpha1.BGPPeerSpec{Address: "2001:db8::1"}}
	wrong := v6
	wrong.Problem = "no password"
	for _, tt := range []struct {
		name  string
		other Router
		want  netip.Addr
	}{
		{name: "a session of the other family", other: v6, want: own},
		{name: "a router without a session", other: wrong, want: netip.IPv4Unspecified()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Speaker{addresses: []netip.Addr{own}, routers: map[string]Router{"a": v4, "b": tt.other}}
			if got := s.nextHop(true); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRouter_Session(t *testing.T) {
	yes, no := true, false
	family := func(afi api.Family_Afi, graceful bool) *api.AfiSafi {
		return &api.AfiSafi{
			Config:            &api.AfiSafiConfig{Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}, Enabled: true},
			PrefixLimits:      &api.PrefixLimit{Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}, MaxPrefixes: 50_000},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: graceful}},
		}
	}
	for _, tt := range []struct {
		name string
		spec v1alpha1.BGPPeerSpec
		node []string
		want *api.Peer
	}{
		{
			name: "defaults",
			spec: v1alpha1.BGPPeerSpec{Address: "192.0.2.1", ASN: 64500, LocalASN: 4200000000},
			node: []string{"192.0.2.11"},
			want: &api.Peer{
				Conf:            &api.PeerConf{NeighborAddress: "192.0.2.1", PeerAsn: 64500, LocalAsn: 4200000000},
				Transport:       &api.Transport{RemotePort: 179},
				Timers:          timers(9, 3),
				AfiSafis:        []*api.AfiSafi{family(api.Family_AFI_IP, true)},
				GracefulRestart: &api.GracefulRestart{Enabled: true, RestartTime: 30, DeferralTime: 1, LocalRestarting: true},
			},
		},
		{
			name: "everything said, over IPv6 from a Node with both families",
			spec: v1alpha1.BGPPeerSpec{
				Address: "2001:db8::1", Port: 1179, ASN: 64500, LocalASN: 64500, SourceAddress: "2001:db8::11",
				HoldTime: metav1.Duration{Duration: 30 * time.Second}, Keepalive: &metav1.Duration{Duration: 2500 * time.Millisecond},
				MultiHop: 4, GracefulRestart: &no,
				BFD: v1alpha1.PeerBFD{Enabled: &yes, Interval: metav1.Duration{Duration: 50 * time.Millisecond}, Multiplier: 5},
			},
			node: []string{"192.0.2.11", "2001:db8::11"},
			want: &api.Peer{
				Conf:         &api.PeerConf{NeighborAddress: "2001:db8::1", PeerAsn: 64500, LocalAsn: 64500},
				Transport:    &api.Transport{RemotePort: 1179, LocalAddress: "2001:db8::11"},
				Timers:       timers(30, 3),
				AfiSafis:     []*api.AfiSafi{family(api.Family_AFI_IP, false), family(api.Family_AFI_IP6, false)},
				EbgpMultihop: &api.EbgpMultihop{Enabled: true, MultihopTtl: 4},
				Bfd: &api.BfdPeerConfig{
					Enabled: true, DesiredMinimumTxInterval: 50_000, RequiredMinimumReceive: 50_000, DetectionMultiplier: 5,
				},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var node []netip.Addr
			for _, a := range tt.node {
				node = append(node, netip.MustParseAddr(a))
			}
			got := Router{BGPPeerSpec: tt.spec}.session(node)
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func timers(hold, keepalive uint64) *api.Timers {
	return &api.Timers{Config: &api.TimersConfig{
		ConnectRetry: 3, HoldTime: hold, KeepaliveInterval: keepalive, IdleHoldTimeAfterReset: 1,
	}}
}

func TestParseCommunities(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		standard   []uint32
		large      []*bgp.LargeCommunity
		wantErr    string
	}{
		{name: "standard", text: "64512:7", standard: []uint32{64512<<16 | 7}},
		{
			name: "large", text: "4200000000:1:4294967295",
			large: []*bgp.LargeCommunity{{ASN: 4200000000, LocalData1: 1, LocalData2: 4294967295}},
		},
		{
			name: "a standard one has 16 bits for the ASN", text: "70000:1",
			wantErr: `community "70000:1": "70000" is not a number of 16 bits`,
		},
		{name: "one number", text: "7", wantErr: `community "7": want ASN:VALUE, or ASN:VALUE:VALUE`},
		{name: "empty", text: "", wantErr: `community "": "" is not a number of 32 bits`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			standard, large, err := parseCommunities([]string{tt.text})
			if got := errorText(err); got != tt.wantErr {
				t.Errorf("got error %q, want %q", got, tt.wantErr)
			}
			if diff := cmp.Diff(tt.standard, standard); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.large, large); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestRouterID(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")
	if got := routerID([]netip.Addr{v6, v4}); got != v4 {
		t.Errorf("got %s", got)
	}
	one, other := routerID([]netip.Addr{v6}), routerID([]netip.Addr{v6.Next()})
	if !one.Is4() || one.IsUnspecified() || one == other {
		t.Errorf("got %s and %s", one, other)
	}
}

// An interface that was made again under its name has another index, and with it another session.
func TestRouter_Session_LinkMadeAgain(t *testing.T) {
	r := Router{Name: "leaf", Link: 5}
	r.Interface, r.Address, r.SourceAddress = "eth1", "fe80::1%eth1", "fe80::2%eth1"
	before, same := r.session(nil), r.session(nil)
	r.Link = 9
	if after := r.session(nil); !proto.Equal(before, same) || proto.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}
