package bgp

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"github.com/osrg/gobgp/v4/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// restartTime is how long a router sends to a Node whose agent is away, if the Node can still be reached.
	restartTime = 30 * time.Second
	// deferralTime bounds how long a new speaker waits until its other routers are done, before it announces to one.
	deferralTime = time.Second
	// connectRetry is the pause between two attempts, and so how long a router that came back is not noticed.
	connectRetry = 3 * time.Second

	defaultHoldTime    = 9 * time.Second
	defaultBFDInterval = 300 * time.Millisecond
	defaultMultiplier  = 3
)

// Router is a BGPPeer as a Node speaks to it.
type Router struct {
	// Name is that of the BGPPeer.
	Name string
	v1alpha1.BGPPeerSpec
	// Password of TCP MD5 (RFC 2385), if any.
	Password string
	// Problem is why there can be no session.
	Problem string
	// Warning is what is wrong, though there can be one.
	Warning string
	// Link is the index of the interface at whose other end the router is; 0: the router has an address of its own.
	Link int
}

// RoutersOf are the routers to which a Node with these labels speaks, by name. Passwords are the data of the Secret
// that holds them, nil before it was read. Before are the routers of the last time: a password that has been known
// outlives its key, since to replace a Secret is no reason to end sessions. What is wrong with a router is its Problem.
func RoutersOf(node map[string]string, peers []*v1alpha1.BGPPeer, passwords map[string][]byte, before []Router) []Router {
	var routers []Router
	for _, peer := range peers {
		r := Router{Name: peer.Name, BGPPeerSpec: peer.Spec}
		if r.Nodes != nil {
			selector, err := metav1.LabelSelectorAsSelector(r.Nodes)
			if err != nil {
				r.Problem = fmt.Sprintf("spec.nodes: %v", err)
			} else if !selector.Matches(labels.Set(node)) {
				continue
			}
		}
		r.setPassword(passwords, before)
		routers = append(routers, r)
	}
	slices.SortFunc(routers, func(a, b Router) int { return cmp.Compare(a.Name, b.Name) })
	return routers
}

// setPassword finds the password, or says why there is none.
func (r *Router) setPassword(passwords map[string][]byte, before []Router) {
	if r.PasswordKey == "" {
		return
	}
	r.Password = string(passwords[r.PasswordKey])
	if r.Password != "" {
		return
	}
	why := fmt.Sprintf("Secret %s/%s has no key %q", v1alpha1.Namespace, v1alpha1.BGPSecretName, r.PasswordKey)
	if passwords == nil {
		why = fmt.Sprintf("Secret %s/%s was not read yet", v1alpha1.Namespace, v1alpha1.BGPSecretName)
	}
	i := slices.IndexFunc(before, func(b Router) bool { return b.Name == r.Name && b.Password != "" })
	if i < 0 {
		r.Problem = cmp.Or(r.Problem, why)
		return
	}
	r.Password, r.Warning = before[i].Password, why+": still using the last password"
}

// distinct leaves one router of each address, the first by name, and checks what the API server may not have.
func distinct(routers []Router) []Router {
	routers = slices.SortedFunc(slices.Values(routers), func(a, b Router) int { return cmp.Compare(a.Name, b.Name) })
	names := map[netip.Addr]string{}
	for i := range routers {
		r := &routers[i]
		if r.Problem != "" {
			continue
		}
		address, err := netip.ParseAddr(r.Address)
		source, sourceErr := netip.ParseAddr(cmp.Or(r.SourceAddress, r.Address))
		switch {
		case err != nil || sourceErr != nil:
			r.Problem = fmt.Sprintf("no addresses: spec.address %q, spec.sourceAddress %q", r.Address, r.SourceAddress)
		case address.Is4() != source.Is4():
			r.Problem = fmt.Sprintf("spec.sourceAddress %s is not of the family of %s", source, address)
		case names[address] != "":
			r.Problem = fmt.Sprintf("BGPPeer/%s has the same address", names[address])
			if r.Interface != "" {
				r.Problem = fmt.Sprintf("BGPPeer/%s has the same router", names[address])
			}
		case r.Keepalive != nil && r.Keepalive.Duration < time.Second:
			r.Problem = fmt.Sprintf("spec.keepalive %s is not 1s at least", r.Keepalive.Duration)
		case r.ASN == 0 && r.Interface == "":
			r.Problem = "spec.asn is required with spec.address"
		default:
			names[address] = r.Name
			r.Address = address.String() // the server's key
		}
	}
	return routers
}

// session is what the server is to know of a router, spoken to from a Node with these addresses.
func (r Router) session(addresses []netip.Addr) *api.Peer {
	hold := cmp.Or(r.HoldTime.Duration, defaultHoldTime)
	keepalive := hold / 3
	if r.Keepalive != nil {
		keepalive = r.Keepalive.Duration
	}
	graceful := r.GracefulRestart == nil || *r.GracefulRestart
	peer := &api.Peer{
		Conf: &api.PeerConf{
			NeighborAddress: r.Address,
			PeerAsn:         uint32(r.ASN),
			LocalAsn:        uint32(r.LocalASN),
			AuthPassword:    r.Password,
		},
		Transport: &api.Transport{LocalAddress: r.SourceAddress, RemotePort: uint32(cmp.Or(r.Port, 179))},
		Timers: &api.Timers{Config: &api.TimersConfig{
			ConnectRetry:           seconds(connectRetry),
			HoldTime:               seconds(hold),
			KeepaliveInterval:      seconds(keepalive),
			IdleHoldTimeAfterReset: 1,
		}},
		AfiSafis: families(r.Address, addresses, graceful),
		Bfd:      r.bfd(),
	}
	if graceful {
		peer.GracefulRestart = &api.GracefulRestart{
			Enabled:      true,
			RestartTime:  uint32(restartTime / time.Second),
			DeferralTime: uint32(deferralTime / time.Second),
			// Whatever this Node's speaker was before, kube-proxy has gone on forwarding.
			LocalRestarting: true,
		}
	}
	if r.Link != 0 {
		// With it another session, where an interface was made again under its name: BFD holds on to the former one.
		peer.Conf.Description = fmt.Sprintf("interface %s, index %d", r.Interface, r.Link)
	}
	if r.MultiHop > 1 {
		peer.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(r.MultiHop)}
	}
	return peer
}

func (r Router) bfd() *api.BfdPeerConfig {
	if r.BFD.Enabled == nil || !*r.BFD.Enabled {
		return nil
	}
	interval := uint32(cmp.Or(r.BFD.Interval.Duration, defaultBFDInterval).Microseconds())
	return &api.BfdPeerConfig{
		Enabled:                  true,
		DesiredMinimumTxInterval: interval,
		RequiredMinimumReceive:   interval,
		DetectionMultiplier:      uint32(cmp.Or(r.BFD.Multiplier, defaultMultiplier)),
	}
}

// families are that of the session, and the other if the Node has an address for its next hop, or needs none.
func families(router string, addresses []netip.Addr, graceful bool) []*api.AfiSafi {
	address, err := netip.ParseAddr(router)
	var list []*api.AfiSafi
	for afi, ipv4 := range map[api.Family_Afi]bool{api.Family_AFI_IP: true, api.Family_AFI_IP6: false} {
		_, reachable := first(addresses, ipv4)
		if err == nil && address.Is4() != ipv4 && !reachable && address.Zone() == "" {
			continue
		}
		family := &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}
		list = append(list, &api.AfiSafi{
			Config:            &api.AfiSafiConfig{Family: family, Enabled: true},
			PrefixLimits:      prefixLimit(family),
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: graceful}},
		})
	}
	slices.SortFunc(list, func(a, b *api.AfiSafi) int { return cmp.Compare(a.Config.Family.Afi, b.Config.Family.Afi) })
	return list
}

// seconds rounds up to what BGP counts in.
func seconds(d time.Duration) uint64 {
	return uint64((d + time.Second - 1) / time.Second)
}

// first address of a family.
func first(addresses []netip.Addr, ipv4 bool) (netip.Addr, bool) {
	i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == ipv4 })
	if i < 0 {
		return netip.Addr{}, false
	}
	return addresses[i], true
}

// routerID has 32 bits and is unique in an autonomous system (RFC 6286): the Node's IPv4 address, or a digest of its
// IPv6 one.
func routerID(addresses []netip.Addr) netip.Addr {
	if a, ok := first(addresses, true); ok {
		return a
	}
	h := fnv.New32a()
	for _, a := range addresses {
		h.Write(a.AsSlice())
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, h.Sum32()|1)))
}
