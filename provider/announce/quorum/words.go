package quorum

import (
	"net/netip"
	"slices"
	"time"
)

// word is what a member with a vote says of an address to one without. Members without a vote hear those with one only, which
// hear all: so these choose, and say whom they have chosen.
type word byte

const (
	// wordNone: another is to have the address.
	wordNone word = iota + 1
	// wordAlone: it is to keep the address, since no other can have it.
	wordAlone
	// wordFree: it is to have the address, and nobody else has it.
	wordFree
	// wordTaken: it is to have the address, which another has that waits for it.
	wordTaken
)

// opWord is the kind of operation that says a word.
func opWord(w word) opKind { return opRevoke + opKind(w) }

// guides are the members that choose for this one, which has no vote: those with a vote that it hears, and that take themselves for one: by a
// newer list than this member's one may have no vote, and has said its last word. One that drains, or that few hear, chooses only where no
// other does.
func (q *Member) guides(now Instant) []*peer {
	if q.version < versionWords || q.counts(q.self) {
		return nil
	}
	var all, staying []*peer
	for _, p := range q.peers {
		if p.version < versionWords || !q.counts(p.name) || !q.memberships.in(p.list, p.name) || !q.Alive(now, p.name) {
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

// lastWord is what the guides say of an address, of different words the last one in their order; 0: they have not said anything of it.
func lastWord(guides []*peer, address netip.Addr) word {
	last := word(0)
	for _, p := range guides {
		last = max(last, p.words[address])
	}
	return last
}

// most reports whether a majority of the guides says one of these words. Two Nodes that hear the same guides are not both wanted by most, unless
// the elected one was late ([Member.substitutes]), and then not for long.
func most(guides []*peer, address netip.Addr, words ...word) bool {
	by := 0
	for _, p := range guides {
		if slices.Contains(words, p.words[address]) {
			by++
		}
	}
	return 2*by > len(guides)
}

// wanted reports whether most guides want this member to have the address.
func wanted(guides []*peer, address netip.Addr) bool {
	return most(guides, address, wordAlone, wordFree, wordTaken)
}

// follow does what the guides say.
func (q *Member) follow(now Instant, guides []*peer, claims []Claim) {
	waking := q.isWaking(now)
	for _, c := range claims {
		last := lastWord(guides, c.Address)
		r, candidate := q.requests[c.Address], slices.Contains(c.Candidates, q.self)
		switch {
		case r == nil:
			may := candidate && !waking && !q.draining && (last != wordTaken || !c.Early)
			if last > wordNone && may && (now >= q.roomUntil(c.Address) || wanted(guides, c.Address)) {
				q.Request(now, c.Address)
			}
		case last == wordNone, !r.owns && (!candidate || q.draining), !candidate && most(guides, c.Address, wordNone):
			q.Drop(now, c.Address)
		}
	}
	for _, p := range guides {
		for address, w := range p.words {
			if w == wordNone && q.requests[address] == nil {
				delete(p.words, address) // it is only of interest to who requests the address
			}
		}
	}
}

// roomUntil is until when this member leaves an address to others that are wanted to have it by more guides. The time is another one for each
// Node, so that these do not all come back at once.
func (q *Member) roomUntil(address netip.Addr) Instant {
	made, has := q.room[address]
	if !has {
		return 0
	}
	return made + time.Second + Instant(score(address, q.self)%uint64(2*time.Second))
}

// follows reports whether this member leaves the choice to others. Without a vote, and without a guide, it requests nothing that it does not
// request already: a thousand of them would request all addresses when they hear the others again.
func (q *Member) follows(now Instant, guides []*peer) bool {
	if len(guides) > 0 || q.version < versionWords || q.counts(q.self) {
		return len(guides) > 0
	}
	for _, p := range q.peers {
		if p.version < versionWords && q.counts(p.name) && q.Alive(now, p.name) {
			return false // agents of an earlier release leave the choice to each
		}
	}
	return len(q.memberships.list) > 0
}

// guide says to the members without a vote what this member, which has one, has chosen. It is silent until it can have heard all.
func (q *Member) guide(
	now Instant, claims []Claim, chosen map[netip.Addr]string, substitutes map[netip.Addr][]string, requested map[netip.Addr]demand,
) {
	if q.version < versionWords || !q.counts(q.self) || now < q.started+grantFor {
		return
	}
	words := map[string]map[netip.Addr]word{}
	say := func(name string, address netip.Addr, w word) {
		if words[name] == nil {
			words[name] = map[netip.Addr]word{}
		}
		words[name][address] = w
	}
	for _, c := range claims {
		next, owner := chosen[c.Address], requested[c.Address].owner
		switch {
		case next == "":
			if slices.Contains(c.Candidates, owner) {
				say(owner, c.Address, wordAlone)
			}
		case owner == "" || next == owner:
			say(next, c.Address, wordFree)
		default:
			say(next, c.Address, wordTaken)
			if requested[c.Address].by < 2 {
				say(owner, c.Address, wordFree) // clients get answers until the chosen one waits
			}
		}
		for _, name := range substitutes[c.Address] {
			if owner == "" || owner == name {
				say(name, c.Address, wordFree)
			} else {
				say(name, c.Address, wordTaken)
			}
		}
	}
	for _, p := range q.everyPeer() {
		if p.version >= versionWords && q.session(p) && q.Alive(now, p.name) && !q.counts(p.name) {
			p.tell(words[p.name])
		}
	}
}

// tell says to a member without a vote what has changed for it. That an address is another's is said once, to who requests it or
// was to have it.
func (p *peer) tell(words map[netip.Addr]word) {
	say := func(address netip.Addr, w word) {
		p.said[address] = w
		p.push(operation{kind: opWord(w), address: address})
	}
	for _, address := range inOrder(words, func(a netip.Addr) bool { return p.said[a] != words[a] }) {
		say(address, words[address])
	}
	for _, address := range inOrder(p.requests, func(a netip.Addr) bool { return words[a] == 0 && p.said[a] == 0 }) {
		say(address, wordNone)
	}
	for _, address := range inOrder(p.said, func(a netip.Addr) bool { return words[a] == 0 }) {
		if p.said[address] != wordNone {
			say(address, wordNone)
		} else if _, requests := p.requests[address]; !requests {
			delete(p.said, address)
		}
	}
}

// Alone reports whether no other member could have the address, which this one has, as far as it knows.
func (q *Member) Alone(now Instant, c Claim) bool {
	if guides := q.guides(now); q.follows(now, guides) {
		return len(guides) == 0 || lastWord(guides, c.Address) == wordAlone
	}
	return !slices.ContainsFunc(c.Candidates, func(name string) bool {
		return name != q.self && q.Alive(now, name) && !q.Draining(name)
	})
}
