package l2

import "net/netip"

// newcomers are agents that have the key, and of whose Nodes this one has not learned: they joined while it could not
// ask the API server. One that drains answers them where it hears them, since nobody else may be there to take what it
// has; and goes on, so that they do not lose it again when it drains no more. A grant binds them to the members that
// this one knows, so that never two own an address.
type newcomers struct {
	// known are Nodes that a view had. They are no newcomers once they are deleted.
	known map[string]bool
	// heardAt is where those are that are answered.
	heardAt map[string]netip.Addr
}

func (s *newcomers) learn(addresses map[string]netip.Addr) {
	for name := range addresses {
		s.known[name] = true
		delete(s.heardAt, name)
	}
}

// hear is called with each datagram. Without answer, who was answered is no more.
func (s *newcomers) hear(name string, at netip.Addr, answer bool) {
	if answer && !s.known[name] {
		s.heardAt[name] = at
	} else {
		delete(s.heardAt, name)
	}
}
