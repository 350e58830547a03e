// Command node-agent runs on every Node of a cluster: it announces addresses of Services, and sets the routes of pods.
//
// Start at command.go, which has its flags; those of `node-agent vip`, the program that holds the control plane's own address,
// are in vip.go. Their work is in agent and agent/vip.
//
// Reads: a kubeconfig, or the ServiceAccount of its pod; Nodes, Services, EndpointSlices, IPAddresses, AddressPools,
// BGPPeers, NodeAgents and a Lease of the manager; the key of heartbeats; with --routes DaemonSets, where its Node has been a network add-on's.
// Writes: the NodeAgent, NodeAgentLease and NodeAnnouncements of its own Node; Events; with --routes its NodeRoutes, and what
// provider/routes writes on a machine.
// Running it twice: the second one on a machine cannot listen for heartbeats, and says so.
// It will not: announce anything before it has seen the cluster once, withdraw anything because it cannot see it now, or
// leave an address on an interface. Routes it leaves, so that pods do not notice that it is replaced; one that is
// started without --routes removes them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/component-base/cli"

	"github.com/ccmadm/ccmadm/agent"
	"github.com/ccmadm/ccmadm/agent/vip"
)

// version is what the linker sets.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	cmd := newCommand(version, programs{agent: agent.Run, vip: vip.Run})
	cmd.SetContext(ctx)
	code := cli.Run(cmd)
	stop()
	os.Exit(code)
}
