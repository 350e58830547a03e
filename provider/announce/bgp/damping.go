package bgp

import (
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// calmTime is how long a session stays as it is until what it did before no longer counts.
	calmTime = time.Minute
	// freeLosses is how often a session is lost without a calmTime between until it counts as established only after one.
	freeLosses = 3
	// freeChanges is how often the rest of it changes meanwhile, such as the reason why there is none.
	freeChanges = 5
)

// damping keeps sessions that come and go from being reported each time, by the router's name: all agents watch the reports of
// all, and a router that is ill changes those of all its Nodes. A loss is always reported at once.
type damping map[string]*damped

// damped is a session as it was seen last and since when, and as it is reported.
type damped struct {
	seen, said      v1alpha1.BGPSession
	since           time.Time
	losses, changes int
}

// damp returns sessions as they are to be reported, and the names of routers whose sessions are not reported as established: what
// these carry is not reported either, also where one is established by the time that its prefixes are asked for.
func (d damping) damp(now time.Time, sessions []v1alpha1.BGPSession) (said []v1alpha1.BGPSession, without []string) {
	there := map[string]bool{}
	for _, s := range sessions {
		there[s.Peer] = true
		if d[s.Peer] == nil {
			d[s.Peer] = &damped{seen: s, said: s, since: now}
		}
		m := d[s.Peer]
		m.see(now, s)
		said = append(said, m.said)
		if !established(m.said) {
			without = append(without, s.Peer)
		}
	}
	for name := range d {
		if !there[name] {
			delete(d, name)
		}
	}
	return said, without
}

// see takes in what the session is now.
func (m *damped) see(now time.Time, s v1alpha1.BGPSession) {
	if !alike(m.seen, s) {
		if established(m.seen) && !established(s) {
			m.losses++
		}
		m.since = now
	}
	m.seen = s
	if now.Sub(m.since) >= calmTime {
		m.losses, m.changes = 0, 0
	}
	comes := established(s) && !established(m.said)
	switch {
	case alike(m.said, s) || established(m.said) && !established(s):
	case comes && m.losses < freeLosses:
		m.changes = 0 // BFD has something to say soon
	case !comes && m.changes < freeChanges:
		m.changes++
	default:
		return // it stays as it is reported
	}
	m.said = s
}

// alike leaves out how many prefixes are advertised: that is news of its own.
func alike(a, b v1alpha1.BGPSession) bool {
	a.Advertised = b.Advertised
	return a == b
}

func established(s v1alpha1.BGPSession) bool { return s.State == stateEstablished }
