package l2

import "net/netip"

// Votes are those that decide who owns an address, and which of them are not heard now.
func (l *Announcer) Votes() (all, unheard []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.quorum.Members(), l.quorum.Unheard(bootTime())
}

// OwnerOf is the Node that owns the address, as far as this one knows; empty: none that is heard.
func (l *Announcer) OwnerOf(address netip.Addr) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := bootTime()
	if l.quorum.Owns(now, address) {
		return l.Node
	}
	if owner := l.quorum.Owner(now, address); owner != l.Node {
		return owner
	}
	return ""
}
