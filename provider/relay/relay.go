// Package relay carries connections to addresses of level Proxy: it takes them on the Node that owns the address, and
// passes them on to endpoints, with a header of PROXY protocol v2 where one is asked for.
//
// Start at [Relay]: it is told what there is to carry ([Relay.Set]) and which addresses the Node owns ([Relay.Carry]).
// sync_linux.go makes that true: redirect_linux.go brings their packets to a listener of its own, connection_linux.go
// passes a connection on, and endpoints.go chooses where to.
//
// Reads: what it is told, and the kernel's note of where a connection was going to.
// Writes: table ccmadm-proxy of nftables, and nothing else. No address is put on an interface, and none becomes local:
// the kernel would answer ARP for it, also when the agent is dead and another Node owns the address.
// Running it twice: what a killed process has left is removed at the start, and again written as a whole.
// It will not: carry UDP or SCTP, or a connection that was not redirected.
package relay

import (
	"net/netip"
	"slices"
)

// Frontend is a port of an address, and what is behind it.
type Frontend struct {
	// Address is what clients connect to.
	Address netip.AddrPort
	// Header says that each connection begins with a header of PROXY protocol v2.
	Header bool
	// Sources are where clients may come from, if Limited.
	Sources []netip.Prefix
	Limited bool
	// Sticky leads all connections of a client to one endpoint, as long as that is there and can be reached.
	Sticky bool
	// Endpoints may be none.
	Endpoints []netip.AddrPort
}

// admits says whether a client may connect.
func (f *Frontend) admits(client netip.Addr) bool {
	return !f.Limited || slices.ContainsFunc(f.Sources, func(p netip.Prefix) bool { return p.Contains(client) })
}
