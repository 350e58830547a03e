package allocator

import (
	"cmp"
	"net/netip"
	"slices"
)

// shareable are the addresses of Services with a share key: each Service without an address looks for one, and must not ask all others.
type shareable map[sharedBy]*candidates

// sharedBy is what Services of one namespace must have in common to share an address.
type sharedBy struct {
	key, namespace string
	ipv6           bool
}

// candidates are addresses in the order of their oldest Services.
type candidates struct {
	list []*candidate
	by   map[netip.Addr]*candidate
	// ports says how many of the addresses have a port. Where all have it, none is left for it.
	ports map[port]int
}

// candidate is an address that a Service of the namespace has.
type candidate struct {
	address netip.Addr
	holder  *Assignment // the oldest of them
	ports   map[port]bool
}

// shareables lists the addresses of all Services, with those that are to replace one: Services that join follow together.
func shareables(order []*Assignment) shareable {
	s := shareable{}
	for _, as := range order {
		for _, address := range as.By {
			s.add(as, address)
		}
		if as.Next.IsValid() {
			s.add(as, as.Next)
		}
	}
	return s
}

// add notes that a Service has an address.
func (s shareable) add(as *Assignment, address netip.Addr) {
	if as.Request.shareKey == "" {
		return
	}
	of := sharedBy{as.Request.shareKey, as.Service.Namespace, address.Is6()}
	all := s[of]
	if all == nil {
		all = &candidates{by: map[netip.Addr]*candidate{}, ports: map[port]int{}}
		s[of] = all
	}
	c := all.by[address]
	switch {
	case c == nil:
		c = &candidate{address: address, holder: as, ports: map[port]bool{}}
		all.by[address] = c
		all.insert(c)
	case as.place < c.holder.place:
		all.list = slices.DeleteFunc(all.list, func(d *candidate) bool { return d == c })
		c.holder = as
		all.insert(c)
	}
	for _, p := range as.Request.ports {
		if !c.ports[p] {
			c.ports[p] = true
			all.ports[p]++
		}
	}
}

func (all *candidates) insert(c *candidate) {
	at, _ := slices.BinarySearchFunc(all.list, c, byPlace)
	all.list = slices.Insert(all.list, at, c)
}

// byPlace orders those of one Service, too, so that the order is always the same.
func byPlace(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.holder.place, b.holder.place), a.address.Compare(b.address))
}

// of are the addresses that the Service may share as far as share keys, ports, pods and lists of namespaces go.
func (s shareable) of(as *Assignment, ipv6 bool) []*candidate {
	var list []*candidate
	for _, namespace := range append([]string{as.Service.Namespace}, as.Request.namespaces...) {
		all := s[sharedBy{as.Request.shareKey, namespace, ipv6}]
		if all == nil || slices.ContainsFunc(as.Request.ports, func(p port) bool { return all.ports[p] == len(all.list) }) {
			continue
		}
		for _, c := range all.list {
			if c.suits(as) {
				list = append(list, c)
			}
		}
	}
	slices.SortStableFunc(list, byPlace)
	return list
}

// suits is false where the holder refuses the Service for certain. It makes no message, as [MayShare] does.
func (c *candidate) suits(as *Assignment) bool {
	a, b := as.Service, c.holder.Service
	if a.Namespace != b.Namespace && !slices.Contains(c.holder.Request.namespaces, a.Namespace) {
		return false
	}
	return (!needSamePods(a, b) || samePods(a, b)) && !slices.ContainsFunc(as.Request.ports, func(p port) bool { return c.ports[p] })
}
