package e2e

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// vipContender gives control planes an address of their own, which is measured. One after the other has the same
// machines and faults. Ours goes on beside the others, as the cluster's endpoint.
type vipContender struct {
	who     string
	address netip.Addr
	port    uint16
	watch   time.Duration // how long a client is looked at, at least

	// Scripts for a machine:
	runs         string // succeeds where its agent and the API server do their work
	away, back   string // take its agent from the machine in order, and bring it back
	kill, revive string // kill its agent, and clear up after it
	explain      string
}

func (c *vipCluster) ownVIP() vipContender {
	const manifest = "/etc/kubernetes/manifests/ccmadm-vip.yaml"
	return vipContender{
		who: ownName, address: c.address, port: 6443, runs: "ip -o address show dev lo | grep -wF " + c.address.String(),
		away: "mv " + manifest + " /root/", back: "mv /root/ccmadm-vip.yaml " + manifest,
		kill: "pkill -9 node-agent", revive: "true",
		explain: "ip -br address; cat /etc/ccmadm/vip/members.json",
	}
}

// controlPlanes are the machines that can have the address.
func (c *vipCluster) controlPlanes() []string { return c.nodes[:3] }

// measureVIP lets everything happen to the machine that has a contender's address. One client connects, which says
// where the address is. The other asks for /livez, which nobody answers where there is a proxy without a server, or a
// server that hangs or has no etcd.
func (c *vipCluster) measureVIP(t *testing.T, figures *table, b vipContender) {
	t.Helper()
	figures.who = b.who
	t.Cleanup(func() {
		for _, m := range c.controlPlanes() {
			if t.Failed() {
				t.Logf("%s:\n%s", m, c.sh(t, m, b.explain).out)
			}
		}
	})
	endpoint := netip.AddrPortFrom(b.address, b.port).String()
	clients := []*onlooker{
		c.probe(t, "TCP", "w1", endpoint, "eth0"),
		c.probe(t, page, "w1", "https://"+endpoint+"/livez"),
	}
	for _, f := range c.vipFaults(t, b) {
		f.watch = max(f.watch, b.watch)
		c.settled(t, b, clients)
		c.measure(t, figures, clients, f)
	}
	c.settled(t, b, clients)
}

// page is the level of the client that asks for /livez. A busy API server answers late, wherever the address is.
const page = "page"

// settled returns when a contender's agents run everywhere, one machine has its address, and clients lose nothing.
func (c *vipCluster) settled(t *testing.T, b vipContender, clients []*onlooker) {
	t.Helper()
	c.waitFor(t, b.who, clients, func() bool {
		return !slices.ContainsFunc(c.controlPlanes(), func(m string) bool { return c.sh(t, m, b.runs).code != 0 })
	})
}
