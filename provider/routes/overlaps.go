package routes

import "net/netip"

// overlaps knows ranges, and finds those that have an address in common with another. Of two that have, one contains the
// other: so each is noted under what it is when cut to the lengths in use, which are few, and a look takes as long with
// many ranges as with one.
type overlaps struct {
	lengths []int
	taken   map[netip.Prefix]string // by range
	inside  map[netip.Prefix]string // by what contains the range
}

// newOverlaps knows none. Ranges that are looked for, and those found because they contain one, have these lengths.
func newOverlaps(lengths []int) *overlaps {
	return &overlaps{lengths: lengths, taken: map[netip.Prefix]string{}, inside: map[netip.Prefix]string{}}
}

// add notes whose a range is. Of two in the same place, the first stays.
func (o *overlaps) add(p netip.Prefix, whose string) {
	for cut := range o.cut(p) {
		if _, there := o.inside[cut]; !there {
			o.inside[cut] = whose
		}
	}
	if _, there := o.taken[p]; !there {
		o.taken[p] = whose
	}
}

// find returns whose a range is that overlaps p.
func (o *overlaps) find(p netip.Prefix) (whose string, found bool) {
	if whose, found = o.inside[p]; found {
		return whose, true
	}
	for cut := range o.cut(p) {
		if whose, found = o.taken[cut]; found {
			return whose, true
		}
	}
	return "", false
}

// cut yields p and those that contain it, of the lengths in use.
func (o *overlaps) cut(p netip.Prefix) func(yield func(netip.Prefix) bool) {
	return func(yield func(netip.Prefix) bool) {
		for _, length := range o.lengths {
			if length > p.Bits() {
				continue
			}
			if cut, err := p.Addr().Prefix(length); err == nil && !yield(cut) {
				return
			}
		}
	}
}
