package quorum

import (
	"net/netip"
	"slices"
)

// offer is what a member with a vote says of an address to one without. Members without a vote hear those with one only, which
// hear all: so these choose, and say whom they have chosen.
type offer byte

const (
	// offerNone: another is to have the address.
	offerNone offer = iota + 1
	// offerAlone: it is to keep the address, since no other can have it.
	offerAlone
	// offerFree: it is to have the address, and nobody else has it.
	offerFree
	// offerTaken: it is to have the address, which another has that waits for it.
	offerTaken
)

// opOffer is the kind of operation that says an offer.
func opOffer(o offer) opKind { return opRevoke + opKind(o) }

// guides are the members that choose for this one, which has no vote: those with a vote that each hear the other. One that drains, or
// that few hear, chooses only where no other does.
func (q *Member) guides(now Instant) []*peer {
	if q.version < versionOffers || q.counts(q.self) {
		return nil
	}
	var all, staying []*peer
	for _, p := range q.peers {
		if p.version < versionOffers || !q.counts(p.name) || !q.Alive(now, p.name) || !p.granting(now) {
			continue
		}
		if all = append(all, p); !p.draining {
			staying = append(staying, p)
		}
	}
	if len(staying) > 0 {
		return staying
	}
	return all
}

// offered is what the guides offer of an address, of different offers the last one in their order, and how many offer it to this
// member; 0: they have not said anything of it.
func offered(guides []*peer, address netip.Addr) (best offer, by int) {
	for _, p := range guides {
		o := p.offers[address]
		best = max(best, o)
		if o > offerNone {
			by++
		}
	}
	return best, by
}

// follow does what the guides say.
func (q *Member) follow(now Instant, guides []*peer, claims []Claim) {
	waking := q.isWaking(now)
	for _, c := range claims {
		best, _ := offered(guides, c.Address)
		r, candidate := q.requests[c.Address], slices.Contains(c.Candidates, q.self)
		switch {
		case r == nil:
			if best > offerNone && candidate && !waking && !q.draining && (best != offerTaken || !c.Early) {
				q.Request(now, c.Address)
			}
		case best == offerNone, !r.owns && (!candidate || q.draining):
			q.Drop(now, c.Address)
		}
	}
	for _, p := range guides {
		for address, o := range p.offers {
			if o == offerNone && q.requests[address] == nil {
				delete(p.offers, address) // it is only of interest to who requests the address
			}
		}
	}
}

// isGuided reports whether this member does what others say. Without a vote, and without a guide, it requests nothing that it does not
// request already: a thousand of them would request all addresses when they hear the others again.
func (q *Member) isGuided(now Instant, guides []*peer) bool {
	if len(guides) > 0 || q.version < versionOffers || q.counts(q.self) {
		return len(guides) > 0
	}
	for _, p := range q.peers {
		if p.version < versionOffers && q.counts(p.name) && q.Alive(now, p.name) {
			return false // agents of an earlier release leave the choice to each
		}
	}
	return len(q.memberships.list) > 0
}

// choice is an address with who has been chosen for it.
type choice struct {
	claim         Claim
	owner, chosen string
	waits         bool // a member that is not the owner requests it
}

// guide says to the members without a vote what this member, which has one, has chosen. It is silent until it can have heard all.
func (q *Member) guide(now Instant, choices []choice) {
	if q.version < versionOffers || !q.counts(q.self) || now < q.started+grantFor {
		return
	}
	offers := map[string]map[netip.Addr]offer{}
	say := func(name string, c choice, o offer) {
		if offers[name] == nil {
			offers[name] = map[netip.Addr]offer{}
		}
		offers[name][c.claim.Address] = o
	}
	for _, c := range choices {
		switch {
		case c.chosen == "":
			if slices.Contains(c.claim.Candidates, c.owner) {
				say(c.owner, c, offerAlone)
			}
		case c.owner == "" || c.chosen == c.owner:
			say(c.chosen, c, offerFree)
		default:
			say(c.chosen, c, offerTaken)
			if !c.waits {
				say(c.owner, c, offerFree) // clients get answers until the chosen one waits
			}
		}
	}
	for _, p := range q.everyPeer() {
		if p.version >= versionOffers && q.session(p) && q.Alive(now, p.name) && !q.counts(p.name) {
			p.tell(offers[p.name])
		}
	}
}

// tell says to a member without a vote what has changed for it. That an address is another's is said once, to who requests it or
// was offered it.
func (p *peer) tell(offers map[netip.Addr]offer) {
	for _, address := range inOrder(offers, func(a netip.Addr) bool { return p.offered[a] != offers[a] }) {
		p.offered[address] = offers[address]
		p.push(operation{kind: opOffer(offers[address]), address: address})
	}
	for _, address := range inOrder(p.requests, func(a netip.Addr) bool { return offers[a] == 0 && p.offered[a] == 0 }) {
		p.offered[address] = offerNone
		p.push(operation{kind: opOffer(offerNone), address: address})
	}
	for _, address := range inOrder(p.offered, func(a netip.Addr) bool { return offers[a] == 0 }) {
		_, requests := p.requests[address]
		switch {
		case p.offered[address] != offerNone:
			p.offered[address] = offerNone
			p.push(operation{kind: opOffer(offerNone), address: address})
		case !requests:
			delete(p.offered, address)
		}
	}
}

// Alone reports whether no other member could have the address, which this one has, as far as it knows.
func (q *Member) Alone(now Instant, c Claim) bool {
	if guides := q.guides(now); q.isGuided(now, guides) {
		best, _ := offered(guides, c.Address)
		return len(guides) == 0 || best == offerAlone
	}
	return !slices.ContainsFunc(c.Candidates, func(name string) bool {
		return name != q.self && q.Alive(now, name) && !q.Draining(name)
	})
}
