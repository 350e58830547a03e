package quorum

import (
	"slices"
	"time"
)

const (
	// maxSent is how long a datagram may be: no network divides it. What is divided, firewalls and clouds like to drop.
	maxSent = 1200
	// operationSize is that of one with an IPv6 address.
	operationSize = 2 + 16 + 4
	// maxParts of a list of members are sent with a heartbeat.
	maxParts = 8
	// maxShown is how often a peer that uses an older version is sent a datagram of this one, each time that it has
	// started: after a rollout two agents would go on with the older one, since each answers in the other's.
	maxShown = 3
	// showAgain is how often it is sent one later. An agent of an earlier release logs some of those that it refuses, and two that
	// lose three would go on with the older version for ever.
	showAgain = time.Minute
)

// size is how long the datagram is without its operations.
func (d *Datagram) size() int {
	const fixed = 127 // the signature, numbers, and the lengths of what follows
	n := fixed + len(d.From) + len(d.To) + 8*len(d.Lists)
	for _, name := range d.List {
		n += 2 + len(name)
	}
	return n
}

// room is for how many operations there is some.
func (d *Datagram) room() int { return max(1, (maxSent-d.size())/operationSize) }

// parts is a list of members of which some names have come.
type parts struct {
	id    ListID
	names []string
}

// add returns the list once it is complete.
func (a *parts) add(d *Datagram) []string {
	if a.id != d.ListOf || len(a.names) != int(d.Total) {
		a.id, a.names = d.ListOf, make([]string, d.Total)
	}
	if int(d.Offset)+len(d.List) > len(a.names) {
		return nil
	}
	copy(a.names[d.Offset:], d.List)
	if slices.Contains(a.names, "") {
		return nil
	}
	names := a.names
	*a = parts{}
	if IDOf(names) != d.ListOf {
		return nil
	}
	return names
}
