package e2e

import (
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// suite is a part of Kubernetes' own tests, run as they are.
type suite struct {
	name    string
	program string // e2e.test or e2e_kubeadm.test
	focus   string // regular expression over the names of tests
	leave   []reason
	apart   string                      // regular expression: tests that another suite has
	known   map[v1alpha1.Level][]reason // tests that fail
	procs   int                         // how many tests run at once
	again   int                         // up to how many failed tests run a second time, alone
}

// reason says of tests, by a regular expression over their names, why they are left out, or fail.
type reason struct{ tests, why string }

// switchedOff is the test that switches session affinity off, and then wants one client to reach several pods.
const switchedOff = `switch session affinity for LoadBalancer service with Local traffic policy`

// slow are the three tests of load balancers that take ten minutes and more each.
func slow() []reason {
	return []reason{
		{`connectivity disruption during rolling update`, "16 minutes each: `make upstream` has them at L2 and BGP"},
		{`only allow access from service loadbalancer source ranges`, "up to 13 minutes: `make upstream` has it at L2 and BGP"},
	}
}

// loadBalancers are the 17 tests of Services of type LoadBalancer.
func loadBalancers(leave ...reason) suite {
	return suite{
		name: "LoadBalancers", program: "e2e.test", focus: `\[sig-network\] LoadBalancers`, procs: 6, leave: leave,
		known: map[v1alpha1.Level][]reason{
			v1alpha1.LevelL2: {{
				switchedOff,
				"L2: one Node has the address, and with policy Local its own pod answers every client",
			}},
			v1alpha1.LevelBGP: {{
				switchedOff,
				"a router that hashes by addresses sends one client to one Node, whose own pod answers with policy Local, also without " +
					"affinity; one that hashes by ports breaks affinity",
			}},
			v1alpha1.LevelNodeIP: {
				{
					`should only target nodes with endpoints`,
					"NodeIP: with policy Local the addresses are those of Nodes with an endpoint; the test moves the pod and keeps the first one",
				},
				{
					switchedOff,
					"NodeIP: the test asks one Node, and with policy Local its own pod answers every client",
				},
			},
		},
	}
}

// kubeadmSuite is what kubeadm's authors ask of a cluster that kubeadm has made.
func kubeadmSuite() suite {
	return suite{
		name: "kubeadm", program: "e2e_kubeadm.test", focus: `\[area-kubeadm\]`, procs: 4,
		leave: []reason{{`networking \[setup-networking\].*dual-stack`, "the lab's cluster has one family"}},
	}
}

// TestUpstream runs, on every change, what Kubernetes' own tests ask of load balancers and of a cluster by kubeadm,
// without the slowest. `make upstream` runs the rest.
func TestUpstream(t *testing.T) {
	t.Parallel()
	c := newUpstreamCluster(t)
	t.Run("kubeadm", func(t *testing.T) { c.run(t, kubeadmSuite(), v1alpha1.LevelL2) })
	c.serve(t, v1alpha1.LevelL2)
	short := loadBalancers(slow()...)
	short.leave = append(short.leave, short.known[v1alpha1.LevelL2]...) // what cannot pass fails after 15 minutes
	t.Run("LoadBalancers", func(t *testing.T) { c.run(t, short, v1alpha1.LevelL2) })
}

// TestUpstreamAll runs all of them that can run here, and keeps the results for docs/contributing/upstream-tests.md.
func TestUpstreamAll(t *testing.T) {
	c := newUpstreamCluster(t)
	nodeIP := loadBalancers(slow()...)
	nodeIP.procs = 1 // Services of one port wait for each other: all have the Nodes' addresses
	for _, each := range []struct {
		level v1alpha1.Level
		suite suite
	}{
		{v1alpha1.LevelL2, loadBalancers()},
		{v1alpha1.LevelBGP, loadBalancers()},
		{v1alpha1.LevelNodeIP, nodeIP},
		{v1alpha1.LevelL2, kubeadmSuite()},
		{v1alpha1.LevelL2, nodesSuite()},
		{v1alpha1.LevelL2, servicesSuite()},
		{v1alpha1.LevelL2, networkSuite()},
		{v1alpha1.LevelL2, conformanceSuite()},
		{v1alpha1.LevelL2, serialSuite()},
	} {
		t.Run(string(each.level)+" "+each.suite.name, func(t *testing.T) { c.record(t, each.suite, each.level) })
	}
}
