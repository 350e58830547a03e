package l2

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

const (
	// watchAgain is the pause after the kernel's events have ended.
	watchAgain = time.Second
	// readAgain is that after interfaces could not be read.
	readAgain = time.Second
	// readPartial is that after not all addresses could be read: it is how long an interface without a carrier may not be noticed.
	readPartial = 200 * time.Millisecond
	// tellPartial is how many readings in a row are partial until the log says so.
	tellPartial = 10
)

// readAlways reads the interfaces whenever they are to be read again, until ctx is done, and pauses in between for as long as that took: with
// thousands of addresses, such as kube-proxy in mode ipvs has, it takes as long as heartbeats are apart, and changes come by the thousand.
func (l *Announcer) readAlways(ctx context.Context) {
	wake(l.refresh)
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.refresh:
		}
		began := time.Now()
		pause := time.Duration(0)
		partials, err := l.readInterfaces()
		if partials > 0 {
			pause = readPartial
		}
		if err != nil {
			wake(l.refresh)
		}
		switch {
		case partials == tellPartial:
			l.Log.Error(err, "Cannot read all addresses: they change all the time; keeping the previous ones of interfaces that are there")
		case err != nil && partials == 0:
			l.Log.Error(err, "Cannot read interfaces; keeping the previous ones")
			pause = readAgain
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(pause, time.Since(began))):
		}
	}
}

// followInterfaces has the interfaces read after each change, until ctx is done. Events that are lost are not missed:
// with each new watch everything is read.
func (l *Announcer) followInterfaces(ctx context.Context) {
	for ctx.Err() == nil {
		err := watchInterfaces(ctx, l.Namespace, func() { wake(l.refresh) })
		if ctx.Err() != nil {
			return
		}
		l.Log.Error(err, "Lost events of the kernel; watching again")
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// readInterfaces takes in what the kernel has, and returns how many readings in a row have been partial. Such a one is taken in as far as
// it goes, beside the error.
func (l *Announcer) readInterfaces() (partials int, err error) {
	r, err := readKernel(l.Namespace, l.addresses)
	if err != nil && !r.partial {
		l.partials = 0
		return 0, err
	}
	if r.partial && l.read { // without the lock, for thousands of addresses: nobody else writes these
		r.complete(reading{interfaces: l.interfaces, usable: l.usable, local: l.local})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.partials++; !r.partial {
		l.partials = 0
	}
	if !l.whole && (!r.partial || l.partials >= tellPartial) {
		l.whole = true
		l.Changed()
	}
	l.takeIn(&r)
	return l.partials, err
}

// takeIn closes segments of interfaces that are gone or are others now.
func (l *Announcer) takeIn(r *reading) {
	there, closed := map[string]bool{}, false
	for _, i := range r.interfaces {
		there[i.Name] = true
	}
	for name, s := range l.segments {
		if !there[name] || r.usable[name] != (sameLink{s.out.IfIndex, s.mac.String()}) {
			l.closeSegment(s, 0)
			closed = true
		} else if s.ndp != nil && !r.linkLocal[s.from] && !r.partial {
			l.renewNDP(s)
		}
	}
	l.local, l.usable, l.read = r.local, r.usable, true
	if l.kernelChanged() {
		l.Changed()
	}
	if !closed && reflect.DeepEqual(r.interfaces, l.interfaces) {
		return
	}
	l.interfaces, l.elsewhere = r.interfaces, true
	for address := range l.unable {
		l.unable[address] = 0
	}
	for _, o := range l.owned {
		if o.segment == nil {
			o.next = 0
		}
	}
	wake(l.poke)
	l.Changed()
}

// renewNDP replaces the socket of a link-local address that is gone. Without another one, addresses of IPv6 are not answered for any more.
func (l *Announcer) renewNDP(s *segment) {
	_ = s.ndp.Close() // it has nothing to lose
	s.ndp, s.ndpAgain = nil, 0
	s.listenNDP(l.Namespace, l.heard)
	for address, o := range l.owned {
		if o.segment == s && !address.Is4() {
			o.next = 0
		}
	}
	wake(l.poke)
}

// closeSegment has those whose addresses it carried look for another one at that moment.
func (l *Announcer) closeSegment(s *segment, next quorum.Instant) {
	s.close()
	delete(l.segments, s.name)
	for _, o := range l.owned {
		if o.segment == s {
			o.segment, o.next = nil, next
		}
	}
}

// sent takes the outcome of a send. An interface that is gone has its segment closed, though no event has said so:
// whoever needs one opens another a second later.
func (l *Announcer) sent(now quorum.Instant, s *segment, err error) error {
	if !gone(err) || l.segments[s.name] != s {
		return err
	}
	l.closeSegment(s, now+time.Second)
	l.Changed()
	return err
}

func (l *Announcer) closeAll() {
	l.mu.Lock()
	segments := l.segments
	l.segments, l.owned, l.view = map[string]*segment{}, map[netip.Addr]*ownership{}, nil
	l.mu.Unlock()
	for _, s := range segments {
		s.close()
		s.ended.Wait()
	}
}

// interfaceOf returns the name of the interface on which an address is to be answered for; empty: there is none.
func (l *Announcer) interfaceOf(c announce.Claim) string {
	return announce.InterfaceFor(c.Address, l.interfaces, l.view.InterfacesOf(c))
}

// segmentOf returns the sockets for an address, which it may be the first to need.
func (l *Announcer) segmentOf(c announce.Claim) (*segment, error) {
	wanted, name := l.view.InterfacesOf(c), l.interfaceOf(c)
	if name == "" && len(wanted) > 0 {
		return nil, fmt.Errorf("answer for %s: none of the interfaces %s has a carrier and an address",
			c.Address, strings.Join(wanted, ", "))
	}
	if name == "" {
		return nil, fmt.Errorf("answer for %s: no interface has a subnet that holds it", c.Address)
	}
	s := l.segments[name]
	if s == nil {
		var err error
		if s, err = openSegment(l.Namespace, name, l.heard); err != nil {
			return nil, err
		}
		l.segments[name] = s
	}
	if !c.Address.Is4() {
		s.listenNDP(l.Namespace, l.heard)
	}
	return s, s.able(c.Address)
}

// Answerable says what keeps this Node from answering for an address of the view's claims; nil: nothing. Sockets are
// opened for it, so that a Node which does not own the address knows as much as one that does.
func (l *Announcer) Answerable(address netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view != nil {
		for _, c := range l.view.Claims {
			if c.Address == address {
				_, err := l.segmentOf(c)
				return err
			}
		}
	}
	return fmt.Errorf("answer for %s: it is not claimed", address)
}

// Report is what [announce.Announcer] says.
func (l *Announcer) Report(status *v1alpha1.NodeAgentStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole {
		status.Interfaces = slices.Clone(l.interfaces)
	}
	status.Draining = status.Draining || l.quorum.Draining(l.Node)
	l.reportVoters(status)
	if l.view == nil {
		return
	}
	if l.whole {
		status.KernelAnswers = l.tellKernel()
	}
	for _, c := range l.view.Claims {
		if o := l.owned[c.Address]; o != nil && o.announced && o.segment != nil {
			status.Announcements = append(status.Announcements, v1alpha1.Announcement{
				Address: c.Address.String(), Level: v1alpha1.LevelL2, Interface: o.segment.name,
			})
		}
		if conflict, there := l.conflicts[c.Address]; there {
			status.Conflicts = append(status.Conflicts, conflict)
		}
	}
}

// Counts are those of now.
func (l *Announcer) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Forged, c.Unverified = l.forged.Load(), l.unverified.Load()
	c.Owned, c.Conflicts = len(l.owned), len(l.conflicts)
	c.Votes, c.Unheard = len(l.quorum.Members()), len(l.quorum.Unheard(bootTime()))
	return c
}

// Owns reports whether this Node owns the address now.
func (l *Announcer) Owns(address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.quorum.Owns(bootTime(), address)
}

// Announces reports whether this Node owns the address now, and machines on the network have been told so: the address is known to be no
// other machine's.
func (l *Announcer) Announces(address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.owned[address]
	return o != nil && o.announced && o.segment != nil && l.quorum.Owns(bootTime(), address)
}

// claims are those that it may take.
func (l *Announcer) claims(now quorum.Instant) []announce.Claim {
	if l.view == nil || l.left {
		return nil
	}
	claims := slices.DeleteFunc(slices.Clone(l.view.Claims), func(c announce.Claim) bool { return c.Level != v1alpha1.LevelL2 })
	if len(l.unable) == 0 {
		return claims
	}
	others := map[quorum.List][]string{}
	unable := map[netip.Addr]quorum.Instant{} // without those that are claimed no more
	for i, c := range claims {
		again, is := l.unable[c.Address]
		if is && now >= again {
			is, again = l.try(c) != nil, now+tryAgain
		}
		if is {
			unable[c.Address] = again
			claims[i].Candidates = without(c.Candidates, l.Node, others)
		}
	}
	l.unable = unable
	return claims
}

// without leaves out a Node. What comes of a list that claims share is shared, too: the quorum searches each list once, and a thousand claims
// may share one of a thousand Nodes.
func without(names []string, node string, known map[quorum.List][]string) []string {
	of := quorum.ListOf(names)
	if _, is := known[of]; !is {
		known[of] = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == node })
	}
	return known[of]
}

// try says what keeps this Node from answering for an address that it does not own; nil: nothing.
func (l *Announcer) try(c announce.Claim) error {
	s, err := l.segmentOf(c)
	if err == nil {
		err = s.join(c.Address)
		s.leave(c.Address)
	}
	return err
}

// addressOf is where a member is heard; invalid: that is not known, or it gets no answer.
func (l *Announcer) addressOf(node string) netip.Addr {
	if l.view == nil {
		return netip.Addr{}
	}
	if address, known := l.view.Addresses[node]; known {
		return address
	}
	return l.discovery.heardAt[node]
}
