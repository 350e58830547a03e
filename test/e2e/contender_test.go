package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// patience is how long a contender has to come to rest after a fault.
const patience = 4 * time.Minute

// contender is a load balancer that is measured. One after the other has the same machines, clients and faults.
type contender struct {
	who     string
	class   string // of its Services, as JSON
	asks    string // annotation by which a Service asks for an address
	router  string // options of the router's side for its sessions
	agents  string // arguments of kubectl that select the pods of its agents, but for the Node
	program string // of an agent
	leave   string // label that has a Node give its addresses away
	many    string // pool of level L2 with two hundred addresses

	install func(t *testing.T)
	ready   func(t *testing.T) bool // its agents are all there
	explain func(t *testing.T)
}

const balancers = `apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: lan}
spec: {ranges: ["%[1]s-%[2]s"], level: L2}
---
apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: fabric}
spec: {ranges: [192.0.2.32/27], level: BGP}
---
apiVersion: ccmadm.dev/v1alpha1
kind: BGPPeer
metadata: {name: router}
spec: {address: %[3]s, asn: 64500, localASN: 64512, bfd: {enabled: true, interval: 100ms, multiplier: 3}}
`

func (l *lab) ours() contender {
	return contender{
		who: ownName, class: "null", asks: "ccmadm.dev/addresses", router: "hold time 9; bfd on;", program: "node-agent",
		agents: "-n kube-system -l app.kubernetes.io/name=ccmadm-node-agent", leave: "ccmadm.dev/drain",
		many: "{apiVersion: ccmadm.dev/v1alpha1, kind: AddressPool, metadata: {name: many},\n" +
			" spec: {ranges: [198.18.0.0/24], level: L2, interfaces: [eth0], serve: {namespaces: [many]}}}\n",
		install: func(t *testing.T) {
			l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
			l.apply(t, fmt.Sprintf(balancers, l.inSubnet(t, 200), l.inSubnet(t, 209), l.address(t, clientMachine)))
		},
		ready:   l.announcing,
		explain: l.explainBalancers,
	}
}

// removeOurs leaves the machines to another one.
func (l *lab) removeOurs(t *testing.T) {
	t.Helper()
	l.kubectl(t, "delete services -l measured --timeout=60s")
	l.kubectl(t, "delete --all bgppeers,addresspools --timeout=60s")
	l.kubectl(t, "-n kube-system delete daemonset ccmadm-node-agent --cascade=foreground --timeout=60s")
}

// announcedAddresses prints what agents announce, whichever object has it.
const announcedAddresses = "get nodeagents,nodeannouncements -o " +
	"jsonpath='{.items[*].status.announcements[*].address} {.items[*].announcements[*].address}'"

// announcing says whether both workers' agents are there and report what they announce.
func (l *lab) announcing(t *testing.T) bool {
	t.Helper()
	var agents v1alpha1.NodeAgentList
	var leases v1alpha1.NodeAgentLeaseList
	for what, list := range map[string]any{"nodeagents": &agents, "nodeagentleases": &leases} {
		if r := l.sh(t, "cp1", admin+"get "+what+" -o json"); r.code != 0 || json.Unmarshal([]byte(r.out), list) != nil {
			return false
		}
	}
	renewed := map[string]time.Time{}
	for _, lease := range leases.Items {
		renewed[lease.Name] = lease.RenewTime.Time
	}
	fresh := 0
	for _, a := range agents.Items {
		if min(time.Since(a.Status.RenewTime.Time), time.Since(renewed[a.Name])) < 25*time.Second && !a.Status.Draining {
			fresh++
		}
	}
	return fresh == 3
}

// explainBalancers shows what a person would look at.
func (l *lab) explainBalancers(t *testing.T) {
	for _, script := range []string{
		admin + "get services,ipaddresses,addresspools,bgppeers -A -o wide; " + admin + "get nodeagents -o yaml; " +
			admin + "get events -A | tail -20",
		admin + "logs --tail 40 --prefix " + l.ours().agents,
	} {
		t.Logf("$ %s\n%s", script, l.sh(t, "cp1", script).out)
	}
	t.Log(l.sh(t, clientMachine, "birdc show protocols all; birdc show route all; ip route; ip neigh").out)
}
