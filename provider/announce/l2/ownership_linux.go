package l2

import (
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

const (
	// probes and probeInterval are how the network is asked for an address before its first use. RFC 5227 wants seconds;
	// what answers at all in a network of machines does so in milliseconds.
	probes        = 3
	probeInterval = 100 * time.Millisecond
	// probeAgain is when an address that another program has is asked for again.
	probeAgain = 30 * time.Second
	// gratuitousInterval is how often an owner sends gratuitous ARP later, in case a switch has forgotten the address.
	gratuitousInterval = time.Minute
	// gratuitousLate is by how much that may be late: those of many addresses are sent in one look, which is at all of them.
	gratuitousLate = time.Second
	// defendInterval is how often an owner contradicts another program (RFC 5227, 2.4).
	defendInterval = 10 * time.Second
	// probeNodeAgain is the same for one that the machine of a Node has: a program that this agent replaces.
	probeNodeAgain = time.Second
	// conflictFor is how long a conflict is reported after it was last seen.
	conflictFor = 2 * time.Minute
	// otherMAC is for how long another MAC that answers for the address is the same conflict. A machine with two interfaces on the link
	// answers with both, and a hostile one has any number of them.
	otherMAC = time.Minute
	// cannotFor is how long an owner may fail to answer before another Node is to have the address: a link-local address takes as long to be
	// usable. The Node leaves the address to others until it can answer, and tries that each tryAgain.
	cannotFor = 2 * time.Second
	tryAgain  = time.Second
	// settled is when nothing may be on its way any more that a former owner sent.
	settled = 2 * time.Second
)

// gratuitousTimes are when a new owner sends gratuitous ARP: frames are lost, and switches learn late.
func gratuitousTimes() []time.Duration {
	return []time.Duration{
		0, 50 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
	}
}

// ownership is an address that this Node owns.
type ownership struct {
	claim      announce.Claim
	segment    *segment // nil while there is no interface
	since      quorum.Instant
	announced  bool
	refused    string         // why it has no segment, as it was logged
	failing    quorum.Instant // since when that is so
	asked      int            // probes sent
	gratuitous int            // how often gratuitous ARP was sent
	next       quorum.Instant // of the next probe, or the next gratuitous ARP
	defended   quorum.Instant
}

// own brings what is announced in line with what is owned, says so in time, and returns when to look again.
func (l *Announcer) own(now quorum.Instant, claims []announce.Claim) time.Duration {
	changed := false
	keep := map[netip.Addr]bool{}
	for _, c := range claims {
		if !l.quorum.Owns(now, c.Address) {
			continue
		}
		keep[c.Address] = true
		o := l.owned[c.Address]
		if o == nil {
			o = &ownership{since: now, next: now}
			l.owned[c.Address] = o
			l.counts.Takeovers++
			l.Log.Info("Acquired an address", "address", c.Address, "service", c.Services)
		}
		o.claim = c
		if l.elsewhere && o.segment != nil && o.segment.name != l.interfaceOf(c) {
			o.next = now
		}
		changed = l.advance(now, o) || changed
	}
	l.elsewhere = false
	for address := range l.owned {
		if !keep[address] {
			l.lose(address)
			changed = true
			l.Log.Info("Released an address", "address", address)
		}
	}
	next := l.untilDue(now) // what one did to its interface may have changed when another is due
	changed = l.forgetConflicts(claims) || changed
	if changed {
		l.Changed()
	}
	return next
}

// untilDue is the time until one of the addresses has to be looked at.
func (l *Announcer) untilDue(now quorum.Instant) time.Duration {
	next := gratuitousInterval
	for _, o := range l.owned {
		at := o.next
		if o.repeats() {
			at += gratuitousLate
		}
		next = min(next, max(0, at-now))
	}
	return next
}

// repeats reports whether nothing is due but gratuitous ARP that was sent as often as a new owner does.
func (o *ownership) repeats() bool {
	return o.announced && o.segment != nil && o.gratuitous >= len(gratuitousTimes())
}

func (l *Announcer) lose(address netip.Addr) {
	if s := l.owned[address].segment; s != nil {
		s.leave(address)
	}
	delete(l.owned, address)
	l.Lost(address)
}

// advance takes the next step with an address, if it is due, and reports whether the report has changed.
func (l *Announcer) advance(now quorum.Instant, o *ownership) bool {
	if now < o.next {
		return false
	}
	before := o.segment
	s, err := l.segmentOf(o.claim)
	if err == nil {
		err = s.join(o.claim.Address)
	}
	if before != nil && (err != nil || before != s) {
		before.leave(o.claim.Address)
	}
	if err != nil {
		return l.cannot(now, o, err) || before != nil
	}
	if o.segment, o.refused = s, ""; before != s {
		o.gratuitous, o.next = 0, now
	}
	if !o.announced && l.probing(now, o) {
		return false
	}
	changed := !o.announced
	if changed {
		l.tellKernel()
		l.Taken(o.claim.Address)
	}
	o.announced = true
	if times := gratuitousTimes(); o.gratuitous+1 < len(times) {
		o.next = now + times[o.gratuitous+1] - times[o.gratuitous]
	} else {
		o.next = now + jitter(gratuitousInterval)
	}
	o.gratuitous++
	if err := l.sent(now, o.segment, o.segment.sendGratuitousARP(o.claim.Address)); err != nil {
		l.Log.Error(err, "Cannot send gratuitous ARP or NDP for an address", "address", o.claim.Address)
	}
	return changed || before != o.segment
}

// cannot notes why an address is not answered for. If that lasts, and another Node could have it, it is released, and not requested until this
// Node can answer: members without that problem would otherwise leave it where nobody answers. It reports whether the address was released.
func (l *Announcer) cannot(now quorum.Instant, o *ownership, why error) bool {
	if o.refused == "" {
		o.failing = now
	}
	if o.refused != why.Error() {
		l.Log.Error(why, "Cannot answer for an address")
	}
	o.segment, o.next, o.refused = nil, now+tryAgain, why.Error()
	only := slices.Equal(o.claim.Candidates, []string{l.Node}) // members that choose for it do not say so
	if only || now < o.failing+cannotFor || l.quorum.Alone(now, quorumClaim(o.claim)) {
		return false
	}
	l.Log.Info("Released an address that this Node cannot answer for", "address", o.claim.Address)
	l.unable[o.claim.Address] = now + tryAgain
	l.quorum.Drop(now, o.claim.Address)
	l.lose(o.claim.Address)
	wake(l.poke)
	return true
}

// probing asks the network for an address that was never used. It is over when nobody has answered.
func (l *Announcer) probing(now quorum.Instant, o *ownership) bool {
	pool := l.view.Pools[o.claim.Pool]
	if o.claim.Probed || pool != nil && pool.Spec.DuplicateAddressDetection != nil && !*pool.Spec.DuplicateAddressDetection {
		return false
	}
	if o.asked == probes {
		if _, taken := l.conflicts[o.claim.Address]; !taken {
			return false
		}
		delete(l.conflicts, o.claim.Address) // if it is still taken, that will show
		o.asked = 0
	}
	o.asked++
	o.next = now + probeInterval
	if err := l.sent(now, o.segment, o.segment.ask(o.claim.Address)); err != nil {
		l.Log.Error(err, "Cannot probe the network for an address", "address", o.claim.Address)
		o.asked--
	}
	return true
}

// heard is called with each frame of a segment.
func (l *Announcer) heard(f frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := bootTime()
	if o := l.owned[f.asks]; o != nil && o.segment == f.segment && f.mac.String() != f.segment.mac.String() {
		// The clock is read after the lock: this is the moment that counts.
		if o.announced && l.quorum.Owns(now, f.asks) {
			if err := l.sent(now, f.segment, f.segment.answer(f)); err != nil {
				l.Log.Error(err, "Cannot answer an ARP or NDP request", "address", f.asks)
			}
		} else if f.from.IsUnspecified() {
			l.conflict(now, o, f) // two ask for it at the same time, and neither has it
		}
	}
	if o := l.owned[f.has]; o != nil && o.segment == f.segment && len(f.mac) == 6 && f.mac.String() != f.segment.mac.String() {
		l.conflict(now, o, f)
	}
}

// conflict is that another program answers for an address that this Node owns.
func (l *Announcer) conflict(now quorum.Instant, o *ownership, f frame) {
	if len(f.mac) != 6 {
		return
	}
	again := probeAgain
	if node := l.agents[f.mac.String()]; node != "" {
		switch {
		case o.announced && l.kernelOf(node, o.claim.Address): // not its agent: it is said as of a stranger
		case o.announced && now < o.since+settled:
			return // a frame of before the address came here
		case o.announced && l.quorum.Claims(now, node, o.claim.Address):
			l.rival(now, o, node)
			return
		case o.announced: // any machine can send a frame with the MAC of a Node
		case now < o.since+settled: // it may have been sent before the address came here
			o.asked, o.next = 0, now+probeNodeAgain
			return
		}
		again = probeNodeAgain // not its agent, which would know: another program on the machine
	}
	address := o.claim.Address
	seen := v1alpha1.AddressConflict{
		Address: address.String(), MAC: f.mac.String(), Interface: f.segment.name, Seen: metav1.NowMicro(),
	}
	before, known := l.conflicts[address]
	if known && before.MAC != seen.MAC && seen.Seen.Sub(before.Seen.Time) < otherMAC {
		seen = before
	}
	l.conflicts[address] = seen
	if !o.announced {
		o.asked, o.next = probes, now+again
	} else if o.defended == 0 || now > o.defended+defendInterval {
		o.defended = now
		_ = o.segment.sendGratuitousARP(address) // it goes on answering, too
	}
	if !known || before.MAC != seen.MAC {
		l.Log.Info("Address conflict: another machine answers", "address", address, "mac", seen.MAC, "interface", seen.Interface)
		if l.Conflict != nil {
			l.Conflict(o.claim, seen)
		}
		l.Changed()
	}
}

// rival is another agent that answers for the same address and says in its heartbeats that it owns it, which the quorum excludes. Should it be
// so, the one with the greater name stops at once.
func (l *Announcer) rival(now quorum.Instant, o *ownership, node string) {
	l.Log.Info("Another agent answers for an address of this Node; please report this", "address", o.claim.Address, "node", node)
	if node < l.Node {
		l.quorum.Drop(now, o.claim.Address)
		l.lose(o.claim.Address)
		wake(l.poke)
		l.Changed()
	}
}

// agentsByMAC are the other Nodes by the MACs of the interfaces that their agents report; of two with the same, the first one by name.
func agentsByMAC(view *announce.View, self string) map[string]string {
	nodes := map[string]string{}
	for name, agent := range view.Agents {
		if name == self {
			continue
		}
		for _, i := range agent.Status.Interfaces {
			if other, known := nodes[i.MAC]; !known || name < other {
				nodes[i.MAC] = name
			}
		}
	}
	return nodes
}

// forgetConflicts drops those of addresses that are not claimed any more, and those that are over.
func (l *Announcer) forgetConflicts(claims []announce.Claim) bool {
	before := len(l.conflicts)
	if before == 0 {
		return false
	}
	claimed := map[netip.Addr]bool{}
	for _, c := range claims {
		claimed[c.Address] = true
	}
	for address, conflict := range l.conflicts {
		o := l.owned[address]
		if !claimed[address] || o == nil || o.announced && time.Since(conflict.Seen.Time) > conflictFor {
			delete(l.conflicts, address)
		}
	}
	return len(l.conflicts) != before
}
