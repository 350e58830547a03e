package e2e

import (
	"testing"
	"time"
)

// TestMeasureControlPlaneVIP measures what a client sees of everything that can happen to the machine that has the
// control plane's own address: the client connects fifty times a second, and asks by ARP ten times a second.
func TestMeasureControlPlaneVIP(t *testing.T) {
	c := vipUp(t, "mvip")
	c.form(t)
	c.client = c.probe(t, "VIP", "w1", "tls:"+c.address.String()+":6443", "eth0")
	figures := newTable(t, "controlplanevip")
	for _, f := range c.connectionFaults(t) {
		c.steady(t, "cp1", "cp2", "cp3")
		c.measure(t, figures, []*onlooker{c.client}, f)
	}
	for _, f := range c.silentFaults(t) {
		c.steady(t, "cp1", "cp2", "cp3")
		c.measureClaim(t, figures, f)
	}
	if *besideMetalLB {
		c.keepalived(t).besideKeepalived(t, figures)
		figures.who = ownName
		figures.compare(t)
	}
	c.steady(t, "cp1", "cp2", "cp3")
	c.measure(t, figures, []*onlooker{c.client}, fault{
		name: "reset", watch: 12 * time.Second, wanted: 100 * time.Millisecond, limit: time.Second, owner: "moves",
		do: func(owner string) { c.must(t, owner, "ccmadm reset --force") },
	})
}

// connectionFaults are those that a client notices when it connects. Each leaves the machines as it found them.
func (c *vipCluster) connectionFaults(t *testing.T) []fault {
	soon, second := 100*time.Millisecond, time.Second
	away := func(manifest string) (do, undo func(string)) {
		return func(owner string) { c.must(t, owner, "mv /etc/kubernetes/manifests/"+manifest+".yaml /root/") },
			func(owner string) { c.must(t, owner, "mv /root/"+manifest+".yaml /etc/kubernetes/manifests/") }
	}
	podAway, podBack := away(vipPodName)
	_, apiBack := away("kube-apiserver")
	return []fault{
		{
			name: "API server killed", watch: 6 * time.Second, wanted: second, limit: 5 * second, owner: "moves",
			do: func(owner string) { c.must(t, owner, "pkill -9 kube-apiserver") },
		},
		{
			name: "API server stopped", watch: 6 * time.Second, wanted: second, limit: 5 * second, owner: "moves",
			do: func(owner string) {
				c.must(t, owner, "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && pkill kube-apiserver")
			},
			undo: apiBack,
		},
		{
			name: "pod's manifest removed", watch: 6 * time.Second, wanted: 0, limit: soon, owner: "moves",
			do: podAway, undo: podBack,
		},
		{
			name: "pod killed", watch: 6 * time.Second, wanted: second, limit: 5 * second,
			do: func(owner string) { c.must(t, owner, "pkill -9 node-agent") },
		},
		{
			name: "partition of the owner", watch: 10 * time.Second, wanted: 2 * second, limit: 10 * second, owner: "moves",
			do:   func(owner string) { c.isolate(t, owner, "w1") },
			undo: func(owner string) { c.must(t, owner, "nft delete table inet partition") },
		},
		{
			name: "power cut", watch: 8 * time.Second, wanted: 2 * second, limit: 10 * second, owner: "moves",
			do:   func(owner string) { c.run(t, "kill", "--name", c.name, owner) },
			undo: func(owner string) { c.run(t, "start", "--name", c.name, owner) },
		},
	}
}

const vipPodName = "ccmadm-vip"

// silentFaults are those in which the kernel, or a server that is of no use, goes on accepting connections.
func (c *vipCluster) silentFaults(t *testing.T) []fault {
	return []fault{
		{
			name: "API server hangs", watch: 8 * time.Second, wanted: 4 * time.Second, limit: 20 * time.Second,
			do:   func(owner string) { c.must(t, owner, "pkill -STOP kube-apiserver") },
			undo: func(owner string) { c.must(t, owner, "pkill -CONT kube-apiserver") },
		},
		{
			name: "etcd stopped", watch: 8 * time.Second, wanted: 4 * time.Second, limit: 20 * time.Second,
			do: func(owner string) {
				c.must(t, owner, "mv /etc/kubernetes/manifests/etcd.yaml /root/ && pkill -9 -x etcd")
			},
			undo: func(owner string) { c.must(t, owner, "mv /root/etcd.yaml /etc/kubernetes/manifests/") },
		},
	}
}

// measureClaim writes how long it took until another machine answered ARP.
func (c *vipCluster) measureClaim(t *testing.T, figures *table, f fault) {
	t.Helper()
	mac := c.client.owner()
	owner := c.machineOf(t, mac)
	begun := time.Now()
	f.do(owner)
	eventually(t, f.limit, f.name+": another machine claims the address", func() bool { return c.client.owner() != mac })
	time.Sleep(f.watch - min(f.watch, time.Since(begun)))
	saw := c.client.figures(begun, time.Now().Add(-time.Second))
	for _, claim := range c.client.between(begun, time.Now(), "arp") {
		if claim.MAC != mac {
			saw.outage = claim.At.Sub(begun)
			break
		}
	}
	figures.add(t, f.name+", claimed", "VIP", saw, f.wanted, f.limit)
	f.undo(owner)
}
