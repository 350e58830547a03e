package l2

import (
	"errors"
	"slices"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// errPruned is what keeps lists of voters from being kept by an API server that answers.
var errPruned = errors.New("the CustomResourceDefinition of NodeAgent has no field status.voters")

// keeping sees to it that the API server has a list of voters before this agent acts on it: one that starts again knows
// what it knew, else two Nodes might own an address.
type keeping struct {
	begun bool
	// waiting is the newest list while the API server does not have it yet.
	waiting *newList
	// unkept is why the API server does not keep lists; nil: it does.
	unkept error
	// told are the lists of which a report was asked for.
	told []quorum.ListID
	// voted says that this agent had a vote then.
	voted bool
}

// newList is one that is not acted on yet.
type newList struct{ names, all []string }

// members takes in who has a vote. The caller has the lock.
func (l *Announcer) members(view *announce.View) {
	now, k := bootTime(), &l.keeping
	if len(view.Members) == 0 {
		return
	}
	if !k.begun {
		l.quorum.Begin(now, view.Bound)
		k.begun = true
	}
	k.waiting = nil
	votes := l.votes() || slices.Contains(view.Members, l.Node)
	if !l.KeepVoters || !votes || k.unkept != nil || l.quorum.Newest(view.Members) {
		l.quorum.SetMembers(now, view.Members, view.All, view.GoneOf(l.quorum.Named()))
		return
	}
	k.waiting = &newList{view.Members, view.All}
	l.quorum.SetGone(now, view.GoneOf(l.quorum.Named()))
	l.Changed()
}

// votes reports whether this agent has a vote. One without only reads lists, and acts on them at once: those that count are
// reported by who has one. With a thousand Nodes each new list would be a thousand reports to a thousand agents.
func (l *Announcer) votes() bool { return slices.Contains(l.quorum.Members(), l.Node) }

// reportVoters leaves what the API server has as it is until this agent has begun with it.
func (l *Announcer) reportVoters(status *v1alpha1.NodeAgentStatus) {
	k := &l.keeping
	if !l.KeepVoters || !k.begun {
		return
	}
	lists := l.quorum.Lists()
	if k.waiting == nil && !l.votes() {
		if len(status.Voters) > 0 { // it had a vote: others are to know that it has left those lists
			status.Voters = quorum.Report(l.Node, lists[max(0, len(lists)-1):])
		}
		return
	}
	if k.waiting != nil {
		id := quorum.IDOf(k.waiting.names)
		lists = slices.DeleteFunc(lists, func(names []string) bool { return quorum.IDOf(names) == id })
		lists = append(lists, k.waiting.names)
	}
	status.Voters = quorum.Report(l.Node, lists)
}

// tellLists asks for a report where other lists bind this agent than it was last asked for. The caller has the lock.
func (l *Announcer) tellLists() {
	k := &l.keeping
	if !l.KeepVoters || slices.Equal(k.told, l.quorum.ListIDs()) {
		return
	}
	before := k.voted
	if k.told, k.voted = l.quorum.ListIDs(), l.votes(); before || k.voted {
		l.Changed()
	}
}

// Written says what became of a report: what was sent, and what the API server has of it, unless it has refused it. Where
// the lists are not kept this agent acts on new ones all the same, as agents of earlier releases did.
func (l *Announcer) Written(sent, kept *v1alpha1.NodeAgentStatus, refused error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.keeping
	if refused == nil && len(sent.Voters) > 0 && len(kept.Voters) == 0 {
		refused = errPruned
	}
	if refused != nil && k.unkept == nil {
		l.Log.Error(refused, "Lists of voters are not saved: if agents restart during a network partition, two Nodes may own an address (split-brain)")
	}
	if refused == nil && len(sent.Voters) == 0 {
		return // this agent has not begun
	}
	k.unkept = refused
	if k.waiting == nil || l.view == nil {
		return
	}
	id := v1alpha1.NewVoterList(k.waiting.names).ID
	if refused == nil && !slices.ContainsFunc(kept.Voters, func(v v1alpha1.VoterList) bool { return v.ID == id }) {
		return // a report that was on its way before
	}
	l.quorum.SetMembers(bootTime(), k.waiting.names, k.waiting.all, l.view.GoneOf(l.quorum.Named()))
	k.waiting = nil
	wake(l.poke)
}
