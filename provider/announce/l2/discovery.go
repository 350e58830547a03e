package l2

import "net/netip"

// discovery finds agents that have the key, and whose Nodes are not in the view: they joined while this agent could not
// reach the API server. An agent that drains answers them at the address that their heartbeats come from, since no other
// may be there to take its addresses; it goes on answering, so that they do not lose an address when it drains no more. A
// grant binds them to the members that this agent knows, so that two never own an address.
type discovery struct {
	// known are Nodes that a view had. Once deleted, they are not discovered again.
	known map[string]bool
	// heardAt are the addresses of discovered agents.
	heardAt map[string]netip.Addr
}

func (d *discovery) learn(addresses map[string]netip.Addr) {
	for name := range addresses {
		d.known[name] = true
		delete(d.heardAt, name)
	}
}

// hear is called with each datagram to this agent that is new, or whose sender was not heard lately. Without answer, that is forgotten.
func (d *discovery) hear(name string, at netip.Addr, answer bool) {
	if answer && !d.known[name] {
		d.heardAt[name] = at
	} else {
		delete(d.heardAt, name)
	}
}
