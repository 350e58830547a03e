package bgp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"google.golang.org/protobuf/proto"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// States of RFC 4271, as the report names them. A session that is not established goes through all others every few seconds, which is
// no news: it counts as Active as long as it is tried.
const (
	stateIdle        = "Idle"
	stateActive      = "Active"
	stateEstablished = "Established"
)

// noExtendedNextHop is what a session says that carries no IPv4.
const noExtendedNextHop = "the router takes no IPv4 address: it has no IPv6 next hops for IPv4 (RFC 8950, extended next hop)"

// Sessions are those with every router, by name, each with the reason if it is not established.
func (s *Speaker) Sessions(ctx context.Context) []v1alpha1.BGPSession {
	s.mu.Lock()
	routers := maps.Clone(s.routers)
	s.mu.Unlock()
	states := map[string]*api.Peer{}
	// A speaker that is closed has no sessions to list.
	_ = s.bgp.ListPeer(ctx, &api.ListPeerRequest{EnableAdvertised: true}, func(p *api.Peer) {
		states[p.GetConf().GetNeighborAddress()] = p
	})
	bfd := map[string]string{}
	s.bgp.ListBfdPeer(ctx, func(address string, state *api.BfdPeerState) {
		bfd[address] = "Down"
		if state.GetSessionState() == api.BfdSessionState_BFD_SESSION_STATE_UP {
			bfd[address] = "Up"
		}
	})
	sessions := make([]v1alpha1.BGPSession, 0, len(routers))
	for _, name := range slices.Sorted(maps.Keys(routers)) {
		r := routers[name]
		session := v1alpha1.BGPSession{Peer: name, State: stateIdle, Message: r.Problem}
		if r.Problem == "" {
			state := states[r.Address] // none while it is made again
			session.State = stateName(state.GetState().GetSessionState())
			session.BFD = bfd[r.Address]
			session.Advertised = advertised(state)
			session.Message = r.Warning
			if session.State == stateEstablished && !takesIPv4(state) {
				session.Message = cmp.Or(r.Warning, noExtendedNextHop)
			}
			if why := r.explain(s.causes.get(r.Address)); session.State != stateEstablished && why != "" {
				session.Message = strings.TrimPrefix(r.Warning+"; "+why, "; ")
			}
		}
		sessions = append(sessions, session)
	}
	return sessions
}

// Announced are the prefixes that routers have: those of the families that an established session carries. Sessions with the
// routers of these names do not count.
func (s *Speaker) Announced(ctx context.Context, without ...string) []netip.Prefix {
	left, carried := s.addressesOf(without), map[api.Family_Afi]bool{}
	// A speaker that is closed has no sessions to list.
	_ = s.bgp.ListPeer(ctx, &api.ListPeerRequest{}, func(p *api.Peer) {
		if p.GetState().GetSessionState() == api.PeerState_SESSION_STATE_ESTABLISHED && !left[p.GetConf().GetNeighborAddress()] {
			for _, family := range negotiated(p) {
				carried[family.GetConfig().GetFamily().GetAfi()] = true
			}
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(sorted(maps.Keys(s.sent)), func(p netip.Prefix) bool {
		if p.Addr().Is4() {
			return !carried[api.Family_AFI_IP]
		}
		return !carried[api.Family_AFI_IP6]
	})
}

// addressesOf are those of routers by name that have a session of their own. One with a problem has none: the session with its address may
// be another router's.
func (s *Speaker) addressesOf(names []string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	addresses := map[string]bool{}
	for _, name := range names {
		if r, is := s.routers[name]; is && r.Problem == "" {
			addresses[r.Address] = true
		}
	}
	return addresses
}

func advertised(p *api.Peer) int32 {
	sum := 0
	for _, family := range negotiated(p) {
		sum += int(family.GetState().GetAdvertised())
	}
	return int32(sum)
}

// negotiated are the families that the router wants, too.
func negotiated(p *api.Peer) []*api.AfiSafi {
	return slices.DeleteFunc(slices.Clone(p.GetAfiSafis()), func(ours *api.AfiSafi) bool {
		if ours.GetConfig().GetFamily().GetAfi() == api.Family_AFI_IP && !takesIPv4(p) {
			return true
		}
		return !slices.ContainsFunc(p.GetState().GetRemoteCap(), func(theirs *api.Capability) bool {
			family := theirs.GetMultiProtocol().GetFamily()
			return family != nil && proto.Equal(family, ours.GetConfig().GetFamily())
		})
	})
}

// takesIPv4 reports whether the next hop of IPv4 paths is one that the router takes: an unnumbered session has only an IPv6 one,
// for routers that say so (RFC 8950).
func takesIPv4(p *api.Peer) bool {
	address, err := netip.ParseAddr(p.GetConf().GetNeighborAddress())
	if err != nil || address.Zone() == "" {
		return true
	}
	return slices.ContainsFunc(p.GetState().GetRemoteCap(), func(theirs *api.Capability) bool {
		return slices.ContainsFunc(theirs.GetExtendedNexthop().GetTuples(), func(t *api.ExtendedNexthopCapabilityTuple) bool {
			return t.GetNlriFamily().GetAfi() == api.Family_AFI_IP && t.GetNexthopFamily().GetAfi() == api.Family_AFI_IP6
		})
	})
}

func stateName(state api.PeerState_SessionState) string {
	if state == api.PeerState_SESSION_STATE_ESTABLISHED {
		return stateEstablished
	}
	return stateActive
}

// cause is why there is no session.
type cause struct {
	kind   causeKind
	detail string
}

type causeKind int

const (
	unknown   causeKind = iota
	noConnect           // detail is the error of connecting
	otherASN            // the router is in another AS than it should be
	rejected            // the router answers our OPEN with a notification
	hungUp              // the router closed the connection before it said anything
	ended               // detail is how an established session ended
	tooMany             // the router sends more than maxPrefixes
)

// causes are the last ones, by address. What the server tells of a session ends with connecting: the rest is in its
// log only.
type causes struct {
	mu sync.Mutex
	of map[string]cause
}

// set keeps what a router that has said once what is wrong repeats by hanging up.
func (c *causes) set(address string, why cause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before := c.of[address].kind; why.kind == hungUp && (before == otherASN || before == rejected) {
		return
	}
	c.of[address] = why
}

func (c *causes) get(address string) cause {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[address]
}

func (c *causes) forget(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, address)
}

// event keeps what a change of state tells, if it tells something.
func (c *causes) event(state apiutil.PeerState) {
	address := state.NeighborAddress.String()
	if state.SessionState == bgp.BGP_FSM_ESTABLISHED {
		c.forget(address)
		return
	}
	if exceeded(state) {
		c.set(address, cause{kind: tooMany})
		return
	}
	switch state.DisconnectReason {
	case api.PeerState_DISCONNECT_REASON_BAD_PEER_AS:
		c.set(address, cause{kind: otherASN})
	case api.PeerState_DISCONNECT_REASON_INVALID_MSG: // no KEEPALIVE after the OPENs
		c.set(address, cause{kind: rejected})
	case api.PeerState_DISCONNECT_REASON_HOLD_TIMER_EXPIRED,
		api.PeerState_DISCONNECT_REASON_NOTIFICATION_RECEIVED,
		api.PeerState_DISCONNECT_REASON_NOTIFICATION_SENT,
		api.PeerState_DISCONNECT_REASON_READ_FAILED,
		api.PeerState_DISCONNECT_REASON_WRITE_FAILED,
		api.PeerState_DISCONNECT_REASON_GRACEFUL_RESTART,
		api.PeerState_DISCONNECT_REASON_HARD_RESET:
		c.set(address, cause{kind: ended, detail: state.DisconnectMessage})
	}
}

// explain says in an operator's words why there is no session, and where to look.
func (r Router) explain(why cause) string {
	router := net.JoinHostPort(r.Address, strconv.Itoa(int(cmp.Or(r.Port, 179))))
	switch why.kind {
	case noConnect:
		if strings.Contains(why.detail, "refused") {
			return fmt.Sprintf("%s refuses connections: no BGP there, or not for this Node", router)
		}
		if strings.Contains(why.detail, "timeout") || strings.Contains(why.detail, "deadline") {
			hint := "it cannot be reached, or requires a password"
			if r.Password != "" {
				hint = "it cannot be reached, or has another password"
			}
			return fmt.Sprintf("%s does not answer: %s", router, hint)
		}
		return why.detail
	case otherASN:
		return fmt.Sprintf("%s is not in AS %d (asn)", router, r.ASN)
	case rejected:
		return fmt.Sprintf("%s rejects this Node: it may expect another AS than %d (localASN)", router, r.LocalASN)
	case hungUp:
		return fmt.Sprintf("%s closes the connection: this Node, or its AS %d, is not configured there", router, r.LocalASN)
	case ended:
		return fmt.Sprintf("session ended: %s", why.detail)
	case tooMany:
		return tooManyPrefixes()
	default:
		return ""
	}
}

// Speaks reports whether an agent has a session with a router, by its report.
func Speaks(agent *v1alpha1.NodeAgent) bool {
	return slices.ContainsFunc(agent.Status.Sessions, established)
}
