package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// clientMachine is a router, too, and no node.
	clientMachine = "w3"
	// fabric is where addresses of level BGP are from, which no machine's subnet has.
	fabric = "192.0.2.40"

	// bird is the router's side. Its kernel spreads connections over the Nodes, by their ports. A session that was lost
	// is not avoided for the usual minute: the next fault waits for it.
	bird = `router id %[1]s;
protocol device {}
protocol kernel { ipv4 { export where source = RTS_BGP; }; merge paths on; }
protocol bfd { interface "eth0" { interval 100 ms; multiplier 3; }; }
template bgp node { local %[1]s as 64500; error wait time 1, 5; %[2]s ipv4 { import all; export none; }; }
`
)

// fault is something that happens to the Node that has the address of level L2.
type fault struct {
	name      string
	prepare   func() // before all comes to rest
	do, undo  func(owner string)
	watch     time.Duration // how long the clients are looked at
	wanted    time.Duration // of the outage, by either client
	limit     time.Duration // above which the test fails, on a machine that is busy with itself
	owner     string        // of the L2 address: moves, stays, or empty for either
	unlimited string        // level of a client that has no limit: who announces cannot help what it sees
}

// TestMeasureLoadBalancer measures what a client sees of everything that can happen to a Node: the same machines, the
// same time, an address of level L2 and one of level BGP. The only endpoint is on the control plane, so that it stays
// whatever goes. With -contenders the same happens to MetalLB, whose figures are written beside.
func TestMeasureLoadBalancer(t *testing.T) {
	l := up(t, "lb", 1, 3, "--image", agentImage, "--image", answererArchive(t, buildProgram(t, "answerer")),
		"--binary", buildProgram(t, "prober"))
	l.must(t, "cp1", "sed -i 's/^mode: nftables$/mode: "+*proxyMode+"/' "+kubeadmYAML)
	l.must(t, "cp1", ccmadmInit+" --node-agent")
	join := l.joinCommand(t)
	l.must(t, "w1", join)
	l.must(t, "w2", join)
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	l.podOf(t, "echo", echoImage, "echo", "cp1")
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/echo")
	figures := newTable(t, "loadbalancer")
	t.Run(ownName, func(t *testing.T) { l.measureBalancer(t, figures, l.ours()) })
	if *contenders {
		l.removeOurs(t)
		t.Run("metallb", func(t *testing.T) { l.measureBalancer(t, figures, l.metallb()) })
		figures.compare(t)
	}
}

// measureBalancer lets everything happen that is measured.
func (l *lab) measureBalancer(t *testing.T, figures *table, b contender) {
	figures.who = b.who
	t.Cleanup(func() {
		if t.Failed() {
			b.explain(t)
		}
	})
	l.startRouter(t, b.router)
	b.install(t)
	clients := []*onlooker{
		l.probe(t, "L2", clientMachine, l.inSubnet(t, 200).String()+":80", "eth0"),
		l.probe(t, "BGP", clientMachine, fabric+":80"),
	}
	for i, first := range l.create(t, b, clients) {
		figures.add(t, "created to first answer", clients[i].level, figuresOf(first), 1200*time.Millisecond, 5*time.Second)
	}
	t.Run("Local", func(t *testing.T) { l.measureLocal(t, figures, b) })
	for _, f := range l.faults(t, b) {
		if f.prepare != nil {
			f.prepare()
		}
		l.waitSteady(t, b, clients)
		l.measure(t, figures, clients, f)
	}
	l.waitSteady(t, b, clients)
	t.Run("Local power", func(t *testing.T) { l.measureLocalPower(t, figures, b) })
	l.waitSteady(t, b, clients)
	t.Run("Spread", func(t *testing.T) { l.measureSpread(t, figures, b) })
	l.waitSteady(t, b, clients)
	l.measureTurnover(t, figures, b, clients)
	t.Run("Many", func(t *testing.T) { l.measureMany(t, figures, b) })
}

// startRouter makes a router of the client's machine, or starts it with other options for its sessions.
func (l *lab) startRouter(t *testing.T, options string) {
	t.Helper()
	l.must(t, clientMachine, "sysctl -qw net.ipv4.fib_multipath_hash_policy=1")
	l.startBird(t, clientMachine, options, "w1", "w2")
}

// startBird makes a machine the router of these Nodes, or starts it again, with options for its sessions.
func (l *lab) startBird(t *testing.T, machine, options string, nodes ...string) {
	t.Helper()
	var config strings.Builder
	fmt.Fprintf(&config, bird, l.address(t, machine), options)
	for _, node := range nodes {
		fmt.Fprintf(&config, "protocol bgp %s from node { neighbor %s as 64512; }\n", node, l.address(t, node))
	}
	l.must(t, machine, "cat > /etc/bird/bird.conf <<'END'\n"+config.String()+"END\n"+
		"mkdir -p /run/bird; systemctl stop router 2>/dev/null; systemd-run --quiet --collect --unit router bird -f")
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

// turnovers are how often Services are deleted and created again: kube-proxy takes changes in once a second, so that
// one time alone is chance.
const turnovers = 5

// measureTurnover comes behind the faults: connections that a client tried while there was no Service are remembered by
// machines for two minutes, and one that has the source port of such a one is lost.
func (l *lab) measureTurnover(t *testing.T, figures *table, b contender, clients []*onlooker) {
	t.Helper()
	deleted, again := make([][]float64, len(clients)), make([][]float64, len(clients))
	for range turnovers {
		for i, last := range l.deleteServices(t, clients) {
			deleted[i] = append(deleted[i], last.Seconds())
		}
		for i, first := range l.create(t, b, clients) {
			again[i] = append(again[i], first.Seconds())
		}
	}
	for i, c := range clients {
		figures.add(t, "deleted to last answer", c.level, middleOf(deleted[i]), 100*time.Millisecond, 2500*time.Millisecond)
		figures.add(t, "created again to first answer", c.level, middleOf(again[i]), 1200*time.Millisecond, 5*time.Second)
	}
}

// create makes a Service for each client, one after the other, and returns when each had its first answer.
func (l *lab) create(t *testing.T, b contender, clients []*onlooker) (first []time.Duration) {
	t.Helper()
	for i, address := range []string{l.inSubnet(t, 200).String(), fabric} {
		c := clients[i]
		created := l.api(t, "POST", services, l.serviceOf(b, strings.ToLower(c.level), "echo", address, "Cluster"))
		eventually(t, patience, "the first answer of "+address, func() bool { return c.firstAfter(created) > 0 })
		first = append(first, c.firstAfter(created))
	}
	eventually(t, patience, "both Nodes announce by BGP", func() bool { return l.twoPaths(t) })
	return first
}

// deleteServices deletes them again, one after the other, and returns when each had its last answer.
func (l *lab) deleteServices(t *testing.T, clients []*onlooker) (last []time.Duration) {
	t.Helper()
	for _, c := range clients {
		time.Sleep(2 * time.Second) // the creation is not to be in it
		deleted := l.api(t, "DELETE", services+"/"+strings.ToLower(c.level), "")
		time.Sleep(3 * time.Second)
		last = append(last, c.lastAfter(deleted))
	}
	return last
}

func figuresOf(d time.Duration) figures { return figures{outage: d} }

// middleOf is the median of seconds.
func middleOf(values []float64) figures {
	return figuresOf(time.Duration(median(values) * float64(time.Second)))
}

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
		if f.unlimited == c.level {
			limit = time.Hour
		}
		figures.add(t, f.name, c.level, c.figures(started, ended), f.wanted, limit)
	}
	became := "stays"
	if clients[0].owner() != before {
		became = "moves"
	}
	if figures.who == ownName && f.owner != "" && f.owner != became {
		t.Errorf("%s: the address %s, want that it %s", f.name, became, f.owner)
	}
	if f.undo != nil {
		f.undo(owner)
	}
}

// waitSteady returns when neither client has seen anything fail for seconds, and each Node's agent is there.
func (l *lab) waitSteady(t *testing.T, b contender, clients []*onlooker) {
	t.Helper()
	l.waitFor(t, b.who, clients, func() bool {
		return l.twoPaths(t) && (l.sh(t, "cp1", "test -e /root/kube-apiserver.yaml").code == 0 || b.ready(t))
	})
}

// waitFor returns when clients have lost nothing for four seconds, one machine has the address, and something holds.
func (l *lab) waitFor(t *testing.T, who string, clients []*onlooker, holds func() bool) {
	t.Helper()
	eventually(t, patience, "clients and agents of "+who+" are content", func() bool {
		now := time.Now()
		from, to := now.Add(-5*time.Second), now.Add(-time.Second)
		for _, c := range clients {
			if f := c.figures(from, to); f.lost > 0 || f.tried < 10 {
				return false
			}
			claims := c.between(from, now, "arp")
			if slices.ContainsFunc(claims, func(s sighting) bool { return s.MAC != claims[0].MAC }) {
				return false
			}
		}
		return holds()
	})
}

func (l *lab) twoPaths(t *testing.T) bool {
	t.Helper()
	return strings.Count(l.sh(t, clientMachine, "ip route show "+fabric).out, "nexthop") == 2
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
