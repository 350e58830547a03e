package e2e

import (
	"fmt"
	"testing"
	"time"
)

// measureLocal measures what clients of Services with externalTrafficPolicy Local lose when the only endpoint moves:
// its successor on another Node is ready before it is deleted. It ends at once, or goes on answering for five seconds.
func (l *lab) measureLocal(t *testing.T, figures *table, b contender) {
	t.Helper()
	clients := l.serveBoth(t, b, "local", "Local", 201, map[string]string{"local-1": "w1"})
	for _, move := range []struct{ name, from, to, image, node string }{
		{"Local endpoint moves", "local-1", "local-2", answererImage, "w2"},
		{"Local endpoint moves slowly", "local-2", "local-3", echoImage, "w1"},
	} {
		l.podOf(t, move.to, move.image, "local", move.node)
		l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/"+move.to)
		l.waitFor(t, b.who, clients, func() bool { return true })
		started := time.Now()
		l.kubectl(t, "delete --wait=false pod "+move.from)
		time.Sleep(10 * time.Second)
		for _, c := range clients {
			f := c.figures(started, time.Now().Add(-time.Second))
			figures.add(t, move.name, c.level, f, 300*time.Millisecond, 3*time.Second)
		}
	}
	l.endBoth(t, "local", map[string]string{"local-3": "w1"})
}

// serviceOf is a Service of class and address for the pods of an app.
func (l *lab) serviceOf(b contender, name, app, address, policy string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q, "labels": {"measured": ""},
 "annotations": {%q: %q}}, "spec": {"type": "LoadBalancer", "loadBalancerClass": %s, "externalTrafficPolicy": %q,
 "selector": {"app": %q}, "ports": [{"port": 80, "targetPort": 8080}]}}`, name, b.asks, address, b.class, policy, app)
}
