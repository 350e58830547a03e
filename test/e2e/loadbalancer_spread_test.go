package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// goneWithin is how long after a power cut Services of ours may still send to the machine's pods, on a busy machine.
const goneWithin = 25 * time.Second

// measureSpread measures what clients lose when a machine with an endpoint dies, and others have further ones: until
// somebody takes its pods out of the Service, a share of all connections goes to a dead one. That begins once the
// address answers again.
func (l *lab) measureSpread(t *testing.T, figures *table, b contender) {
	t.Helper()
	pods := map[string]string{"spread-1": "cp1", "spread-2": "w1", "spread-3": "w2"}
	clients := l.serveBoth(t, b, "spread", "Cluster", 202, pods)
	owner, cut := l.cutPower(t, b, clients)
	time.Sleep(60*time.Second - time.Since(cut))
	for _, c := range clients {
		saw := c.figures(cut.Add(2*time.Second), time.Now().Add(-2*time.Second))
		figures.add(t, "power cut, then dead endpoints", c.level, saw, 0, time.Hour)
		late := c.figures(cut.Add(goneWithin), time.Now().Add(-2*time.Second))
		// Of a dead endpoint that is not out, a third. Fewer have the source port of one that was lost before: a machine
		// remembers for two minutes where that was sent.
		if figures.who == ownName && late.lost > late.tried/8 {
			t.Errorf("%s: %d of %d connections are lost more than %s after the power cut: %s", c.level, late.lost, late.tried,
				goneWithin, c.lostAt(cut, goneWithin))
		}
	}
	l.run(t, "start", "--name", l.name, owner)
	l.endBoth(t, "spread", pods)
}

// measureLocalPower measures the same with externalTrafficPolicy Local, where each machine sends to its own pods.
func (l *lab) measureLocalPower(t *testing.T, figures *table, b contender) {
	t.Helper()
	pods := map[string]string{"both-1": "w1", "both-2": "w2"}
	clients := l.serveBoth(t, b, "both", "Local", 203, pods)
	owner, cut := l.cutPower(t, b, clients)
	time.Sleep(12*time.Second - time.Since(cut))
	for _, c := range clients {
		saw := c.figures(cut, time.Now().Add(-time.Second))
		figures.add(t, "Local, power cut", c.level, saw, 1500*time.Millisecond, 3*time.Second)
	}
	l.run(t, "start", "--name", l.name, owner)
	l.endBoth(t, "both", pods)
}

// cutPower takes the power from the machine that has the address of level L2, once all is at rest, and says when.
func (l *lab) cutPower(t *testing.T, b contender, clients []*onlooker) (owner string, cut time.Time) {
	t.Helper()
	l.waitFor(t, b.who, clients, func() bool { return true })
	owner, cut = l.machineOf(t, clients[0].owner()), time.Now()
	l.run(t, "kill", "--name", l.name, owner)
	return owner, cut
}

// serveBoth makes pods, and a Service for them at either level, each with a client.
func (l *lab) serveBoth(t *testing.T, b contender, app, policy string, host byte, pods map[string]string) []*onlooker {
	t.Helper()
	for pod, machine := range pods {
		l.kubectl(t, "wait --for=condition=Ready --timeout=240s node/"+machine)
		l.podOf(t, pod, echoImage, app, machine)
	}
	for pod := range pods {
		l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/"+pod)
	}
	addresses := map[string]string{"L2": l.inSubnet(t, host).String(), "BGP": l.inFabric(host)}
	var clients []*onlooker
	for _, level := range []string{"L2", "BGP"} {
		service := l.serviceOf(b, app+"-"+strings.ToLower(level), app, addresses[level], policy)
		created := l.api(t, "POST", services, service)
		c := l.probe(t, level, clientMachine, addresses[level]+":80", map[string][]string{"L2": {"eth0"}}[level]...)
		eventually(t, patience, "the first answer of "+addresses[level], func() bool { return c.firstAfter(created) > 0 })
		clients = append(clients, c)
	}
	return clients
}

// endBoth removes them again. Of a machine that has lost its power, the pod is still there.
func (l *lab) endBoth(t *testing.T, app string, pods map[string]string) {
	t.Helper()
	l.kubectl(t, "delete service "+app+"-l2 "+app+"-bgp")
	for pod, machine := range pods {
		l.kubectl(t, "wait --for=condition=Ready --timeout=240s node/"+machine)
		l.kubectl(t, "delete --grace-period=1 --timeout=120s pod "+pod)
	}
}

// lostAt says when connections were lost that began so long after a moment, and why.
func (c *onlooker) lostAt(moment time.Time, after time.Duration) string {
	var text strings.Builder
	for _, s := range c.between(moment.Add(after), time.Now(), "connect") {
		if s.Error != "" {
			fmt.Fprintf(&text, "%.2f s: %s; ", s.At.Sub(moment).Seconds(), s.Error)
		}
	}
	return text.String()
}
