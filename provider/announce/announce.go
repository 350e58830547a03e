// Package announce has what all that tell the network where the addresses of Services are have in common. It is the part
// of agent that sends to the network.
//
// Start at [Announcer], of which package l2 has one, which answers ARP and NDP on one Node at a time, and package bgp
// another, which announces a route from every Node that may. Package quorum sees to it that never two Nodes own an address of
// level L2. [View] is what they know of the cluster, with candidates.go for who may announce an address, and members.go
// for who has a vote.
//
// Reads: objects that the agent has read, claims among them. Writes: nothing; l2 and bgp write datagrams, frames and
// sessions, nothing in the cluster and nothing in the kernel.
// Running it twice: nothing stays behind on a machine, so that there is nothing to find again.
// It will not: withdraw anything because the API server does not answer, put an address on an interface, or carry
// packets, which is kube-proxy's.
package announce

import (
	"context"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Announcer announces the addresses of one level.
type Announcer interface {
	// Run works until ctx is done. Before the first Set it announces nothing.
	Run(ctx context.Context) error
	// Set replaces what the announcer knows. It returns at once, and may be called often, with the same view, too.
	Set(view *View)
	// Report adds what is announced, and what keeps the rest from it, to a report of this Node. What it does not know yet it leaves
	// as it is in the report. It does not wait.
	Report(status *v1alpha1.NodeAgentStatus)
	// Drain gives everything away and takes nothing any more. It returns when others have taken it, or ctx is done.
	Drain(ctx context.Context)
}
