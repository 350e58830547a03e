package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// measureLocal measures what clients of Services with externalTrafficPolicy Local lose when the only endpoint moves:
// its successor on another Node is ready before it is deleted. It ends at once, or goes on answering for five seconds.
func (l *lab) measureLocal(t *testing.T, figures *table, b contender) {
	t.Helper()
	addresses := map[string]string{"L2": l.inSubnet(t, 201).String(), "BGP": "192.0.2.42"}
	l.podOf(t, "local-1", echoImage, "local", "w1")
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/local-1")
	var clients []*onlooker
	for _, level := range []string{"L2", "BGP"} {
		service := l.serviceOf(b, "local-"+strings.ToLower(level), "local", addresses[level], "Local")
		created := l.api(t, "POST", services, service)
		c := l.probe(t, level, clientMachine, addresses[level]+":80", map[string][]string{"L2": {"eth0"}}[level]...)
		eventually(t, patience, "the first answer of "+addresses[level], func() bool { return c.firstAfter(created) > 0 })
		clients = append(clients, c)
	}
	for _, move := range []struct{ name, from, to, image, node string }{
		{"Local endpoint moves", "local-1", "local-2", answererImage, "w2"},
		{"Local endpoint moves slowly", "local-2", "local-3", echoImage, "w1"},
	} {
		l.podOf(t, move.to, move.image, "local", move.node)
		l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/"+move.to)
		l.waitFor(t, b, clients, func() bool { return true })
		started := time.Now()
		l.kubectl(t, "delete --wait=false pod "+move.from)
		time.Sleep(10 * time.Second)
		for _, c := range clients {
			f := c.figures(started, time.Now().Add(-time.Second))
			figures.add(t, move.name, c.level, f, 300*time.Millisecond, 3*time.Second)
		}
	}
	l.kubectl(t, "delete service local-l2 local-bgp")
	l.kubectl(t, "delete pod local-3")
}

// serviceOf is a Service of class and address for the pods of an app.
func (l *lab) serviceOf(b contender, name, app, address, policy string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q, "labels": {"measured": ""},
 "annotations": {%q: %q}}, "spec": {"type": "LoadBalancer", "loadBalancerClass": %s, "externalTrafficPolicy": %q,
 "selector": {"app": %q}, "ports": [{"port": 80, "targetPort": 8080}]}}`, name, b.asks, address, b.class, policy, app)
}
