package e2e

import (
	"testing"
	"time"
)

// TestMeasureControlPlaneVIP measures what clients get of the API server while everything happens to the machine that
// has the control plane's own address: one connects fifty times a second and asks by ARP ten times a second, one asks
// for /livez fifty times a second.
// With -contenders the same happens to keepalived with HAProxy, and to kube-vip, whose figures are written beside.
func TestMeasureControlPlaneVIP(t *testing.T) {
	c := vipUp(t, "mvip")
	c.form(t)
	figures := newTable(t, "controlplanevip")
	t.Run(ownName, func(t *testing.T) { c.measureVIP(t, figures, c.ownVIP()) })
	if *contenders {
		t.Run("keepalived", func(t *testing.T) { c.measureVIP(t, figures, c.keepalived(t)) })
		t.Run("kube-vip", func(t *testing.T) { c.measureVIP(t, figures, c.kubeVIP(t)) })
		figures.compare(t)
	}
	figures.who = ownName
	c.settled(t, c.ownVIP(), []*onlooker{c.client})
	c.measure(t, figures, []*onlooker{c.client}, fault{
		name: "reset", watch: 12 * time.Second, wanted: 100 * time.Millisecond, limit: time.Second, owner: "moves",
		do: func(owner string) { c.must(t, owner, "ccmadm reset --force") },
	})
}

// vipFaults are in an order in which each leaves the machines as it found them.
func (c *vipCluster) vipFaults(t *testing.T, b vipContender) []fault {
	soon, second := 100*time.Millisecond, time.Second
	on := func(script string) func(string) { return func(machine string) { c.must(t, machine, script) } }
	return []fault{
		{
			name: "API server killed", watch: 6 * second, wanted: second, limit: 5 * second, owner: "moves",
			do: on("pkill -9 kube-apiserver"),
		},
		{
			name: "API server stopped", watch: 6 * second, wanted: second, limit: 5 * second, owner: "moves",
			do:   on("mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/ && pkill kube-apiserver"),
			undo: on("mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/"),
		},
		{
			name: "agent taken away", watch: 6 * second, wanted: 0, limit: soon, owner: "moves", unlimited: page,
			do: on(b.away), undo: on(b.back),
		},
		{
			name: "agent killed", watch: 6 * second, wanted: second, limit: 5 * second,
			do: on(b.kill), undo: on(b.revive),
		},
		{
			name: "partition of the owner", watch: 10 * second, wanted: 2 * second, limit: 10 * second, owner: "moves",
			do:   func(owner string) { c.isolate(t, owner, "w1") },
			undo: on("nft delete table inet partition"),
		},
		{
			name: "power cut", watch: 8 * second, wanted: 2 * second, limit: 10 * second, owner: "moves",
			do:   func(owner string) { c.run(t, "kill", "--name", c.name, owner) },
			undo: func(owner string) { c.run(t, "start", "--name", c.name, owner) },
		},
		{
			name: "API server hangs", watch: 8 * second, wanted: 4 * second, limit: 20 * second, owner: "moves",
			do: on("pkill -STOP kube-apiserver"), undo: on("pkill -CONT kube-apiserver"),
		},
		{
			name: "etcd stopped", watch: 8 * second, wanted: 4 * second, limit: 20 * second, owner: "moves",
			do:   on("mv /etc/kubernetes/manifests/etcd.yaml /root/ && pkill -9 -x etcd"),
			undo: on("mv /root/etcd.yaml /etc/kubernetes/manifests/"),
		},
	}
}
