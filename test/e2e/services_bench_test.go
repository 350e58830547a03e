package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	manyServices = 1000
	agents       = 3 // one on each machine

	// manyPool is in no machine's subnet: agents answer for its addresses on the interface that it names.
	manyPool = `{apiVersion: ccmadm.dev/v1alpha1, kind: AddressPool, metadata: {name: many},
 spec: {ranges: [198.18.0.0/21], level: L2, interfaces: [eth0]}}`

	// makeMany writes a list of Services: numbers $1 to $2, of namespace many, to the pods with label run=$3.
	makeMany = `make_many() { for i in $(seq $1 $2); do cat <<END
---
{apiVersion: v1, kind: Service, metadata: {name: s$i, namespace: many}, spec: {type: LoadBalancer,
 allocateLoadBalancerNodePorts: false, selector: {run: $3}, ports: [{port: 80, targetPort: 8080}]}}
END
done; }; export KUBECONFIG=/etc/kubernetes/admin.conf
`
	// withAddress prints the addresses of Services of namespace many.
	withAddress = `-n many get services -o jsonpath='{.items[*].status.loadBalancer.ingress[0].ip}'`

	// used prints what a program of the machine has used: seconds of processor time, and megabytes of memory now.
	used = `pid=$(pidof %s); awk '{print ($14 + $15) / 100}' /proc/$pid/stat; awk '/VmRSS/ {print $2 / 1024}' /proc/$pid/status`
)

// BenchmarkServices measures a thousand Services of type LoadBalancer: how long until they have their addresses and
// until these are announced, and what an agent costs while nothing changes and while Services come and go.
func BenchmarkServices(b *testing.B) {
	l := up(b, "services", 1, 2, "--image", agentImage)
	l.must(b, "cp1", ccmadmInit+" --node-agent")
	join := l.joinCommand(b)
	l.must(b, "w1", join)
	l.must(b, "w2", join)
	l.run(b, "network", "--name", l.name)
	l.kubectl(b, "wait --for=condition=Ready --timeout=240s node --all")
	l.kubectl(b, `run echo --image=`+echoImage+` --image-pull-policy=Never`)
	l.kubectl(b, "wait --for=condition=Ready --timeout=240s pod/echo")
	l.kubectl(b, "create namespace many")
	l.put(b, "/tmp/pool.yaml", manyPool)
	l.kubectl(b, "apply -f /tmp/pool.yaml")
	l.kubectl(b, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")

	var figures []figure
	add := func(what string, got float64, unit string, target float64, note string) {
		figures = append(figures, figure{what, got, unit, target, note})
	}
	_, before := l.usedBy(b, "node-agent")
	add("agent, no Service: memory", before, "MB", 0, "the larger of two")
	began := time.Now()
	l.must(b, "cp1", makeMany+fmt.Sprintf("make_many 1 %d echo | kubectl create -f - >/dev/null", manyServices))
	created := time.Since(began).Seconds()
	l.waitMany(b, "have an address", func() int { return l.withAddress(b) })
	allocated := time.Since(began).Seconds()
	l.waitMany(b, "are announced", func() int { return l.announced(b) })
	add(fmt.Sprintf("%d Services created, by kubectl", manyServices), created, "s", 0, "one run")
	add("  all have their address after", allocated, "s", 0, "")
	add("  all are announced after", time.Since(began).Seconds(), "s", 0, "each was asked for in the network before")

	time.Sleep(time.Minute) // what is idle after that is idle for years
	cpu, _ := l.usedBy(b, "node-agent")
	writes := l.agentWrites(b)
	time.Sleep(time.Minute)
	later, memory := l.usedBy(b, "node-agent")
	add("agent, nothing changes: processor time a minute", later-cpu, "s", 0, "the larger of two")
	add("  memory", memory, "MB", 0, "")
	add("  writes to the API server a minute, each agent", (l.agentWrites(b)-writes)/agents, "", 4, "")

	cpu, writes, began = later, l.agentWrites(b), time.Now()
	for i := range 10 { // a tenth of them goes, and comes again
		first := i*10 + 1
		l.must(b, "cp1", makeMany+fmt.Sprintf("make_many %d %d echo > /tmp/some.yaml; kubectl delete --wait=false -f /tmp/some.yaml >/dev/null; "+
			"kubectl -n many wait --for=delete --timeout=240s -f /tmp/some.yaml; kubectl create -f /tmp/some.yaml >/dev/null", first, first+9))
	}
	l.waitMany(b, "are announced again", func() int { return l.announced(b) })
	took := time.Since(began).Minutes()
	later, memory = l.usedBy(b, "node-agent")
	add("100 Services deleted and created: processor time", later-cpu, "s", 0, fmt.Sprintf("in %.0f s", took*60))
	add("  memory", memory, "MB", 0, "")
	add("  writes to the API server a minute, each agent", (l.agentWrites(b)-writes)/agents/took, "", 0, "")
	report(b, figures)
}

// waitMany waits until a count is that of all Services.
func (l *lab) waitMany(b *testing.B, what string, count func() int) {
	b.Helper()
	n := 0
	defer func() { b.Logf("%d of %d Services %s", n, manyServices, what) }()
	eventually(b, 5*time.Minute, "all Services "+what, func() bool {
		n = count()
		return n == manyServices
	})
}

// withAddress counts the Services that have an address.
func (l *lab) withAddress(b *testing.B) int {
	b.Helper()
	return len(strings.Fields(l.kubectl(b, withAddress)))
}

// announced counts the addresses that agents say they answer for.
func (l *lab) announced(b *testing.B) int {
	b.Helper()
	return len(strings.Fields(l.kubectl(b, announcedAddresses)))
}

// usedBy returns seconds of processor time and megabytes of memory, each of the agent of w1 or w2 that has more.
func (l *lab) usedBy(t testing.TB, program string) (seconds, megabytes float64) {
	t.Helper()
	for _, node := range []string{"w1", "w2"} {
		fields := strings.Fields(l.must(t, node, fmt.Sprintf(used, program)))
		if len(fields) != 2 {
			t.Fatalf("%s: got %q, want seconds and megabytes", node, fields)
		}
		for i, to := range []*float64{&seconds, &megabytes} {
			n, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			*to = max(*to, n)
		}
	}
	return seconds, megabytes
}

// agentWrites returns how many writes of agents (nodeagents, nodeagentleases, nodeannouncements) the API server has answered since it started.
func (l *lab) agentWrites(b *testing.B) float64 {
	b.Helper()
	var sum float64
	for line := range strings.Lines(l.kubectl(b, "get --raw /metrics")) {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `resource="nodea`) &&
			!strings.Contains(line, `verb="GET"`) && !strings.Contains(line, `verb="LIST"`) && !strings.Contains(line, `verb="WATCH"`) {
			sum += lastNumber(b, line)
		}
	}
	return sum
}
