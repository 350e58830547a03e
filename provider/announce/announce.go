// Package announce tells the network where the addresses of Services are. It is the part of cmd/node-agent that speaks
// on the wire.
//
// Start at [Announcer]: L2 answers ARP and NDP on one Node at a time, BGP announces a route from every Node that may,
// and Proxy carries connections to addresses of its level, for which L2 answers. [View] is what they know of the
// cluster. For L2, election.go says which Node should have an address, and quorum.go sees to it that never two have it.
//
// Reads: a View, heartbeats of other agents, ARP and NDP of the network, the machine's interfaces.
// Writes: datagrams, frames and sessions; nothing in the cluster, and nothing in the kernel but what provider/relay
// does.
// Running it twice: nothing else stays behind on a machine, so that there is nothing to find again.
// It will not: withdraw anything because the API server does not answer, put an address on an interface, or carry
// packets of levels other than Proxy, which is kube-proxy's.
package announce

import (
	"context"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Announcer does its part for the addresses of one level or two.
type Announcer interface {
	// Run works until ctx is done. Before the first Set it announces nothing.
	Run(ctx context.Context) error
	// Set replaces what the announcer knows. It returns at once, and may be called often, with the same view, too.
	Set(view *View)
	// Report adds what is announced, and what keeps the rest from it, to a report of this Node. It does not wait.
	Report(status *v1alpha1.NodeAgentStatus)
	// Drain gives everything away and takes nothing any more. It returns when others have taken it, or ctx is done.
	Drain(ctx context.Context)
}
