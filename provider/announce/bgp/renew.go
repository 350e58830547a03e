package bgp

import (
	"context"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"google.golang.org/protobuf/proto"
)

const (
	// settleTime is for what BFD has to say about the end of a session, at about the same time. GoBGP v4.8.0 can hang
	// if BFD asks for a reset while it is being removed from several sessions.
	settleTime = 100 * time.Millisecond
	// renewPause is for the router's BFD to notice that ours is away. It ends before GoBGP connects again, which it does
	// 2.5 seconds after a session that it ended itself, and 6.5 seconds after another.
	renewPause = 1400 * time.Millisecond
)

// noteState makes a session with BFD again once it was established and is lost. A router that ends a session ends its
// BFD as well, which GoBGP v4.8.0 notices when the session is gone, and then keeps the notification for the next one:
// that ends as soon as it is established, the router's BFD with it, and so on. Deletion takes the notification away.
func (s *Speaker) noteState(ctx context.Context, state apiutil.PeerState) {
	address := state.NeighborAddress.String()
	s.mu.Lock()
	defer s.mu.Unlock()
	if state.SessionState == bgp.BGP_FSM_ESTABLISHED {
		s.established[address] = true
		return
	}
	established := s.established[address]
	delete(s.established, address)
	if exceeded(state) {
		s.beginAfterPause(ctx, address)
		return
	}
	if !established {
		return
	}
	for name, session := range s.sessions {
		if session.GetConf().GetNeighborAddress() == address && session.GetBfd() != nil {
			go s.renew(ctx, name, session)
		}
	}
}

// renew ends BFD at once, and makes the session again when the router's BFD is down, too. GoBGP forgets the number by
// which the router's BFD knows it: a router that is still up would notice later, and end the next session. Renew stops
// when SetRouters has replaced the session, or the speaker is closed.
func (s *Speaker) renew(ctx context.Context, name string, session *api.Peer) {
	without := proto.CloneOf(session)
	without.Bfd = nil
	if !wait(ctx, settleTime) {
		return
	}
	s.mu.Lock()
	if s.sessions[name] == session {
		// Where that is not possible BFD ends with the session.
		_, _ = s.bgp.UpdatePeer(ctx, &api.UpdatePeerRequest{Peer: without})
	}
	s.mu.Unlock()
	if !wait(ctx, renewPause) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[name] == session {
		s.replace(ctx, name, session)
	}
}

// replace deletes a session and begins it again. What is wrong then is the router's problem, and the next SetRouters
// tries again. GoBGP v4.8.0 leaves a goroutine and its queue behind, some kilobytes, where something waits to be sent at
// that moment: in one of four cases here, in all while paths change without a pause, and never more than one for each
// session that was established (TestSpeaker_Leaves). Nothing that it exports empties that queue.
func (s *Speaker) replace(ctx context.Context, name string, session *api.Peer) {
	address := session.GetConf().GetNeighborAddress()
	delete(s.established, address)
	// The only error is that there is no such session.
	_ = s.bgp.DeletePeer(ctx, &api.DeletePeerRequest{Address: address})
	if err := s.begin(ctx, session); err != nil {
		r := s.routers[name]
		r.Problem = err.Error()
		s.routers[name] = r
		delete(s.sessions, name)
	}
}

// beginAfterPause makes the session again that GoBGP has ended, unless it was replaced before, or the speaker is closed. It needs s.mu.
func (s *Speaker) beginAfterPause(ctx context.Context, address string) {
	for name, session := range s.sessions {
		if session.GetConf().GetNeighborAddress() != address || s.exceeding[name] == session {
			continue
		}
		s.exceeding[name] = session
		pause := s.prefixesPause
		go func() {
			again := wait(ctx, pause)
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.exceeding[name] != session {
				return // another one waits
			}
			delete(s.exceeding, name)
			// Its end is an event like that of the one before: one that is up by now stays.
			if again && s.sessions[name] == session && !s.established[address] {
				s.replace(ctx, name, session)
			}
		}()
	}
}

// wait returns whether d has passed before the speaker was closed.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
