package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// clientMachine is a router, too, and no node.
	clientMachine = "w3"
	// fabric is where addresses of level BGP are from, which no machine's subnet has.
	fabric = "192.0.2.40"

	balancers = `apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: lan}
spec: {ranges: [%[1]s], level: L2}
---
apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: fabric}
spec: {ranges: [192.0.2.32/27], level: BGP}
---
apiVersion: ccmadm.dev/v1alpha1
kind: BGPPeer
metadata: {name: router}
spec: {address: %[2]s, asn: 64500, localASN: 64512, bfd: {enabled: true, interval: 100ms, multiplier: 3}}
`
	service = `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %[1]q, "annotations": {"ccmadm.dev/addresses": %[2]q}},
 "spec": {"type": "LoadBalancer", "selector": {"run": "echo"}, "ports": [{"port": 80, "targetPort": 8080}]}}`

	// bird is the router's side. Its kernel spreads connections over the Nodes, by their ports.
	bird = `router id %[1]s;
protocol device {}
protocol kernel { ipv4 { export where source = RTS_BGP; }; merge paths on; }
protocol bfd { interface "eth0" { interval 100 ms; multiplier 3; }; }
template bgp node { local %[1]s as 64500; hold time 9; bfd on; ipv4 { import all; export none; }; }
`
)

// fault is something that happens to the Node that has the address of level L2.
type fault struct {
	name         string
	do, undo     func(owner string)
	watch        time.Duration // how long the clients are looked at
	wanted       time.Duration // of the outage, by either client
	limit        time.Duration // above which the test fails, on a machine that is busy with itself
	owner        string        // of the L2 address: moves, stays, or empty for either
	bgpUnlimited bool          // what BGP cannot help
}

// TestMeasureLoadBalancer measures what a client sees of everything that can happen to a Node: the same machines, the same time,
// an address of level L2 and one of level BGP. The only endpoint is on the control plane, so that it stays whatever goes.
func TestMeasureLoadBalancer(t *testing.T) {
	l := up(t, "lb", 1, 3, "--image", agentImage, "--binary", buildProgram(t, "prober"))
	l.must(t, "cp1", ccmadmInit+" --node-agent")
	join := l.joinCommand(t)
	l.must(t, "w1", join)
	l.must(t, "w2", join)
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=60s node cp1 w1 w2")
	l.kubectl(t, `run echo --image=`+echoImage+` --image-pull-policy=Never --overrides='{"spec":{"nodeName":"cp1"}}'`)
	l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=60s")
	l.startRouter(t)
	vip := l.inSubnet(t, 200)
	l.put(t, "/tmp/balancers.yaml", fmt.Sprintf(balancers, vip, l.address(t, clientMachine)))
	l.kubectl(t, "apply -f /tmp/balancers.yaml")
	l.kubectl(t, "wait --for=condition=Ready --timeout=60s pod/echo")

	figures := newTable(t, "loadbalancer")
	clients := []*onlooker{
		l.probe(t, "L2", clientMachine, vip.String()+":80", "eth0"),
		l.probe(t, "BGP", clientMachine, fabric+":80"),
	}
	t.Cleanup(func() {
		if t.Failed() {
			l.explainBalancers(t)
		}
	})
	l.measureCreation(t, figures, clients, vip)
	for _, f := range l.faults(t) {
		l.waitSteady(t, clients)
		l.measure(t, figures, clients, f)
	}
	l.measureDeletion(t, figures, clients)
}

// startRouter makes a router of the client's machine.
func (l *lab) startRouter(t *testing.T) {
	t.Helper()
	var config strings.Builder
	fmt.Fprintf(&config, bird, l.address(t, clientMachine))
	for _, node := range []string{"w1", "w2"} {
		fmt.Fprintf(&config, "protocol bgp %s from node { neighbor %s as 64512; }\n", node, l.address(t, node))
	}
	l.must(t, clientMachine, "cat > /etc/bird/bird.conf <<'END'\n"+config.String()+"END\n"+
		"sysctl -qw net.ipv4.fib_multipath_hash_policy=1; mkdir -p /run/bird; systemd-run --quiet --unit router bird -f")
}

// api sends a request from cp1 with the administrator's certificate, in milliseconds where kubectl takes half a second.
func (l *lab) api(t *testing.T, method, path, body string) time.Time {
	t.Helper()
	const script = `cd /tmp; [ -e admin.key ] || for f in certificate-authority client-certificate client-key; do
 awk -v k="$f-data:" '$1 == k {print $2}' /etc/kubernetes/admin.conf | base64 -d > $f; done; touch admin.key
curl -sSf --cacert certificate-authority --cert client-certificate --key client-key -H 'Content-Type: application/json' `
	l.must(t, "cp1", script+`https://$(hostname -I | cut -d' ' -f1):6443/livez >/dev/null`)
	sent := time.Now()
	l.must(t, "cp1", script+`-X `+method+` -d '`+body+`' "https://$(hostname -I | cut -d' ' -f1):6443`+path+`" >/dev/null`)
	return sent
}

const services = "/api/v1/namespaces/default/services"

func (l *lab) measureCreation(t *testing.T, figures *table, clients []*onlooker, vip netip.Addr) {
	t.Helper()
	for i, address := range []string{vip.String(), fabric} {
		c := clients[i]
		created := l.api(t, "POST", services, fmt.Sprintf(service, strings.ToLower(c.level), address))
		eventually(t, 30*time.Second, "the first answer of "+address, func() bool { return c.firstAfter(created) > 0 })
		f := figuresOf(c.firstAfter(created))
		figures.add(t, "created to first answer", c.level, f, 1200*time.Millisecond, 5*time.Second)
	}
	eventually(t, 90*time.Second, "both Nodes announce by BGP", func() bool { return l.twoPaths(t) })
}

func (l *lab) measureDeletion(t *testing.T, figures *table, clients []*onlooker) {
	t.Helper()
	// The cloud-controller-manager has lost its Lease with the API server: another Service shows that it leads again.
	l.kubectl(t, "create service loadbalancer again --tcp=81:8080")
	l.kubectl(t, "wait --for=jsonpath='{.status.loadBalancer.ingress}' --timeout=120s service/again")
	for _, c := range clients {
		deleted := l.api(t, "DELETE", services+"/"+strings.ToLower(c.level), "")
		time.Sleep(3 * time.Second)
		last := figuresOf(c.lastAfter(deleted))
		figures.add(t, "deleted to last answer", c.level, last, 100*time.Millisecond, 2500*time.Millisecond) // kube-proxy takes up to 1 s
	}
}

func figuresOf(d time.Duration) figures { return figures{outage: d} }

// measure lets one fault happen, and writes what the clients saw.
func (l *lab) measure(t *testing.T, figures *table, clients []*onlooker, f fault) {
	t.Helper()
	before := clients[0].owner()
	owner := l.machineOf(t, before)
	started := time.Now()
	f.do(owner)
	time.Sleep(f.watch - time.Since(started))
	ended := time.Now()
	for _, c := range clients {
		limit := f.limit
		if f.bgpUnlimited && c.level == "BGP" {
			limit = time.Hour
		}
		figures.add(t, f.name, c.level, c.figures(started, ended), f.wanted, limit)
	}
	became := "stays"
	if clients[0].owner() != before {
		became = "moves"
	}
	if f.owner != "" && f.owner != became {
		t.Errorf("%s: the address %s, want that it %s", f.name, became, f.owner)
	}
	if f.undo != nil {
		f.undo(owner)
	}
}

// waitSteady returns when neither client has seen anything fail for two seconds, and each Node reports.
func (l *lab) waitSteady(t *testing.T, clients []*onlooker) {
	t.Helper()
	eventually(t, 90*time.Second, "clients and agents are content", func() bool {
		now := time.Now()
		for _, c := range clients {
			f := c.figures(now.Add(-2*time.Second), now.Add(-time.Second))
			if f.lost > 0 || f.tried < 10 {
				return false
			}
		}
		return l.twoPaths(t) && (l.sh(t, "cp1", "test -e /root/kube-apiserver.yaml").code == 0 || l.announcing(t))
	})
}

func (l *lab) twoPaths(t *testing.T) bool {
	t.Helper()
	return strings.Count(l.sh(t, clientMachine, "ip route show "+fabric).out, "nexthop") == 2
}

// announcing says whether both workers' agents are there and report what they announce.
func (l *lab) announcing(t *testing.T) bool {
	t.Helper()
	r := l.sh(t, "cp1", admin+"get nodeagents -o json")
	var list v1alpha1.NodeAgentList
	if r.code != 0 || json.Unmarshal([]byte(r.out), &list) != nil {
		return false
	}
	fresh := 0
	for _, a := range list.Items {
		if time.Since(a.Status.RenewTime.Time) < 25*time.Second && !a.Status.Draining {
			fresh++
		}
	}
	return fresh == 3
}

// machineOf is the one with this hardware address.
func (l *lab) machineOf(t *testing.T, mac string) string {
	t.Helper()
	for _, m := range l.nodes {
		if strings.TrimSpace(l.sh(t, m, "cat /sys/class/net/eth0/address").out) == mac {
			return m
		}
	}
	t.Fatalf("no machine has %q", mac)
	return ""
}

// explainBalancers shows what a person would look at.
func (l *lab) explainBalancers(t *testing.T) {
	for _, script := range []string{
		admin + "get services,ipaddresses,addresspools,bgppeers -A -o wide; " + admin + "get nodeagents -o yaml; " + admin + "get events -A | tail -20",
		admin + "-n kube-system logs -l app.kubernetes.io/name=ccmadm-node-agent --tail 40 --prefix",
	} {
		t.Logf("$ %s\n%s", script, l.sh(t, "cp1", script).out)
	}
	t.Log(l.sh(t, clientMachine, "birdc show protocols all; birdc show route all; ip route; ip neigh").out)
}
