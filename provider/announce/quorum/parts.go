package quorum

import "slices"

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

// extras are datagrams that carry no operations: parts of a list that the peer lacks, and one of a newer version. First is
// the number of the next operation.
func (q *Member) extras(now Instant, p *peer, first uint32) []*Datagram {
	var extras []*Datagram
	next := func() *Datagram {
		d := q.heartbeat(now, p)
		if q.session(p) {
			d.First = first
		}
		extras = append(extras, d)
		return d
	}
	if p.version < q.version && p.shown < maxShown && q.session(p) {
		p.shown++
		next().Version = q.version
	}
	names := q.memberships.known[p.lacking]
	if p.lacking == 0 || p.version < versionParts || len(names) == 0 || len(names) > 1<<16-1 {
		return extras
	}
	for range maxParts {
		if p.part >= len(names) {
			p.part = 0
		}
		d := next()
		d.ListOf, d.Offset, d.Total = p.lacking, uint16(p.part), uint16(len(names))
		size := d.size()
		for p.part < len(names) && (len(d.List) == 0 || size+2+len(names[p.part]) <= maxSent) {
			size += 2 + len(names[p.part])
			d.List = append(d.List, names[p.part])
			p.part++
		}
		if p.part == len(names) {
			break // the rest comes again with the next heartbeat, if some was lost
		}
	}
	return extras
}

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
