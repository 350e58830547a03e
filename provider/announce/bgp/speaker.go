// Package bgp announces addresses to the routers of a Node: a route from every Node that may.
//
// Start at [Announcer], which does so for the addresses of a view, or at [Speaker] for paths and routers of any kind.
//
// Reads: an [announce.View]. Writes: sessions of TCP to port 179 of routers, and of UDP port 3784 where BFD is on; router
// advertisements on interfaces that a router is known by.
// Running it twice: nothing stays behind on a machine.
// It will not: learn a route, listen to a TCP port, or withdraw anything because the API server does not answer.
package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/server"
	"google.golang.org/protobuf/proto"
)

const (
	// drainPause is how long routers have to choose other Nodes once a drain has begun (RFC 8326), before this one's
	// paths are withdrawn. A router in the same rack takes milliseconds.
	drainPause = 500 * time.Millisecond
	// serverASN is AS_TRANS (RFC 6793): GoBGP's server wants a number, and each of our sessions has its own.
	serverASN = 23456
)

// Speaker speaks BGP with the routers of a Node: start with [NewSpeaker]; [Speaker.SetRouters] and [Speaker.SetPaths]
// say what shall be, as often as that changes.
//
// Reads: its arguments, and router advertisements. Writes: sessions of TCP to port 179 of routers, and of UDP port 3784 where BFD
// is on; router advertisements on interfaces that a router is known by. Saying the same again changes nothing on the wire.
//
// It listens to no TCP port, learns no route, and lets no router that is wrong keep another from its paths.
type Speaker struct {
	addresses []netip.Addr
	changed   func()
	causes    *causes
	neighbors *neighbors
	bgp       *server.BgpServer
	stop      context.CancelFunc

	drains sync.Mutex // held while one drains

	mu       sync.Mutex
	given    []Router // by SetRouters
	routers  map[string]Router
	sessions map[string]*api.Peer // by the router's name: what the server has
	wanted   map[netip.Prefix]Path
	sent     map[netip.Prefix]sentPath
	draining bool
	// established has the addresses of routers with a session that is up.
	established map[string]bool
	// exceeding are sessions with routers that sent too many paths, by the router's name, until they are made again after prefixesPause.
	exceeding     map[string]*api.Peer
	prefixesPause time.Duration
}

// sentPath is a path as it was given to the server.
type sentPath struct {
	Path
	nextHop netip.Addr
	leaving bool
}

// NewSpeaker starts a speaker of a Node with these addresses, the first IPv4 one of which is the router ID, and the
// first of either family the next hop where a session has the other. It calls changed, on a goroutine of its own,
// after a session came or went. Close ends it.
func NewSpeaker(ctx context.Context, log logr.Logger, addresses []netip.Addr, changed func()) (*Speaker, error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // it ends with Close, in order
	s := &Speaker{
		addresses: addresses,
		changed:   changed,
		causes:    &causes{of: map[string]cause{}},
		stop:      stop,
		routers:   map[string]Router{},
		sessions:  map[string]*api.Peer{},
		sent:      map[netip.Prefix]sentPath{},

		established: map[string]bool{}, exceeding: map[string]*api.Peer{}, prefixesPause: maxPrefixesPause,
	}
	s.neighbors = newNeighbors(func() {
		s.mu.Lock()
		s.apply(ctx)
		s.mu.Unlock()
		s.changed()
	})
	logger, level := newLogger(log, s.causes)
	s.bgp = server.NewBgpServer(server.LoggerOption(logger, level))
	go s.bgp.Serve()
	if err := s.start(ctx); err != nil {
		s.bgp.Stop()
		stop()
		return nil, err
	}
	return s, nil
}

func (s *Speaker) start(ctx context.Context) error {
	global := &api.Global{Asn: serverASN, RouterId: routerID(s.addresses).String(), ListenPort: -1}
	if err := s.bgp.StartBgp(ctx, &api.StartBgpRequest{Global: global}); err != nil {
		return fmt.Errorf("start BGP: %w", err)
	}
	if err := s.learnNothing(ctx); err != nil {
		return fmt.Errorf("refuse what routers announce: %w", err)
	}
	if err := s.ownNextHops(ctx); err != nil {
		return fmt.Errorf("set the next hops of unnumbered sessions: %w", err)
	}
	callbacks := server.WatchEventMessageCallbacks{
		OnPeerUpdate: func(event *apiutil.WatchEventMessage_PeerEvent, _ time.Time) {
			s.causes.event(event.Peer.State)
			s.noteState(ctx, event.Peer.State)
			s.changed()
		},
	}
	if err := s.bgp.WatchEvent(ctx, callbacks, server.WatchPeer()); err != nil {
		return fmt.Errorf("watch sessions: %w", err)
	}
	return nil
}

// learnNothing takes in no path but the Node's own: none is passed on from one router to another.
func (s *Speaker) learnNothing(ctx context.Context) error {
	own := &api.Policy{Name: "own", Statements: []*api.Statement{{
		Name:       "own",
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
	}}}
	return s.assign(ctx, own, api.PolicyDirection_POLICY_DIRECTION_IMPORT, api.RouteAction_ROUTE_ACTION_REJECT)
}

// assign makes a policy the one of all sessions in a direction; paths that it does not judge are treated otherwise.
func (s *Speaker) assign(ctx context.Context, policy *api.Policy, direction api.PolicyDirection, otherwise api.RouteAction) error {
	if err := s.bgp.AddPolicy(ctx, &api.AddPolicyRequest{Policy: policy}); err != nil {
		return err
	}
	return s.bgp.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
		Name: "global", Direction: direction, Policies: []*api.Policy{policy}, DefaultAction: otherwise,
	}})
}

// ownNextHops makes a link-local address, in each session that has one, the next hop of all paths, of IPv4 ones, too (RFC 8950). A path
// has one next hop for all other sessions: see nextHop.
func (s *Speaker) ownNextHops(ctx context.Context) error {
	const name = "unnumbered"
	if err := s.bgp.AddDefinedSet(ctx, &api.AddDefinedSetRequest{DefinedSet: &api.DefinedSet{
		DefinedType: api.DefinedType_DEFINED_TYPE_NEIGHBOR, Name: name, List: []string{"fe80::/10"},
	}}); err != nil {
		return err
	}
	policy := &api.Policy{Name: name, Statements: []*api.Statement{{
		Name:       name,
		Conditions: &api.Conditions{NeighborSet: &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: name}},
		Actions:    &api.Actions{Nexthop: &api.NexthopAction{Self: true}},
	}}}
	return s.assign(ctx, policy, api.PolicyDirection_POLICY_DIRECTION_EXPORT, api.RouteAction_ROUTE_ACTION_ACCEPT)
}

// SetRouters makes these the routers to speak with. A session whose router is the same stays as it is; one whose
// router has changed is made again, which costs that router its paths for some seconds. A router that cannot be spoken
// with says so in Sessions, and the others go on. One that is known by an interface is spoken with as soon as it advertises itself
// there.
func (s *Speaker) SetRouters(ctx context.Context, routers []Router) {
	interfaces := map[string]bool{}
	for _, r := range routers {
		if r.Interface != "" {
			interfaces[r.Interface] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.neighbors.listen(context.WithoutCancel(ctx), interfaces) // until Close
	s.given = routers
	s.apply(ctx)
}

// apply has a session with each router that was given, and with no other. Its caller holds mu.
func (s *Speaker) apply(ctx context.Context) {
	routers := make([]Router, 0, len(s.given))
	for _, r := range s.given {
		routers = append(routers, s.neighbors.resolve(r))
	}
	wanted, sessions := map[string]Router{}, map[string]*api.Peer{}
	for _, r := range distinct(routers) {
		if r.Problem == "" {
			sessions[r.Name] = r.session(s.addresses)
		}
		wanted[r.Name] = r
	}
	for name, session := range s.sessions {
		if next, stays := sessions[name]; stays && proto.Equal(session, next) {
			continue
		}
		s.end(ctx, session)
		delete(s.sessions, name)
	}
	s.routers = wanted
	_ = s.send() // a path's next hop can depend on the routers; what is wrong with one SetPaths says
	for name, session := range sessions {
		if s.sessions[name] != nil {
			continue
		}
		if err := s.begin(ctx, session); err != nil {
			r := wanted[name]
			r.Problem = err.Error()
			wanted[name] = r
			continue
		}
		s.sessions[name] = session
	}
}

func (s *Speaker) begin(ctx context.Context, session *api.Peer) error {
	// The server writes defaults into what it is given.
	return s.bgp.AddPeer(ctx, &api.AddPeerRequest{Peer: proto.CloneOf(session)})
}

func (s *Speaker) end(ctx context.Context, session *api.Peer) {
	address := session.GetConf().GetNeighborAddress()
	// The only error is that there is no such session.
	_ = s.bgp.DeletePeer(ctx, &api.DeletePeerRequest{Address: address})
	s.causes.forget(address)
	delete(s.established, address)
}

// SetPaths makes these the paths that routers get, at once and without notice for what is no longer among them. An
// error names the paths that are wrong, and that no router gets; the others are announced.
func (s *Speaker) SetPaths(paths []Path) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = map[netip.Prefix]Path{}
	var wrong []error
	for _, p := range paths {
		if _, err := p.attributes(netip.IPv4Unspecified(), false); err != nil {
			wrong = append(wrong, fmt.Errorf("announce %s: %w", p.Prefix, err))
			continue
		}
		s.wanted[p.Prefix] = p
	}
	return errors.Join(append(wrong, s.send())...)
}

// Drain asks routers to choose other Nodes, gives them half a second, and withdraws every path; sessions stay. Paths
// that are set later wait for Resume. It returns early, with everything withdrawn, when ctx ends. A second one waits for
// the first.
func (s *Speaker) Drain(ctx context.Context) error {
	s.drains.Lock()
	defer s.drains.Unlock()
	s.mu.Lock()
	before := s.draining
	s.draining = true
	if before || len(s.sent) == 0 {
		s.mu.Unlock()
		return nil
	}
	leaving := s.offer(true)
	s.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(drainPause):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(leaving, s.send())
}

// Resume announces again what was set, after a Drain.
func (s *Speaker) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = false
	return s.send()
}

// Close ends every session without a word, so that routers which agreed to a graceful restart go on sending to this
// Node until its next speaker comes, for [restartTime] at most. A Node that goes away is drained first: routers are
// then told that it goes, in case a withdrawal did not reach them.
func (s *Speaker) Close(ctx context.Context) error {
	defer s.stop()
	s.neighbors.close()
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	err := s.bgp.StopBgp(ctx, &api.StopBgpRequest{AllowGracefulRestart: !draining})
	s.bgp.Stop() // ends BFD, which StopBgp leaves, and finds the rest stopped
	if err != nil {
		return fmt.Errorf("stop BGP: %w", err)
	}
	return nil
}
