package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// testMutability changes everything about a Service but its address, which stays.
func (l *lab) testMutability(t *testing.T, protocol string) {
	name := "mutable-" + strings.ToLower(protocol)
	l.serve(t, name, "answer", protocol, `"type": "NodePort"`)
	nodePort := l.service(t, name).Spec.Ports[0].NodePort
	l.patchService(t, name, `{"spec": {"type": "LoadBalancer"}}`)
	address := l.waitAddress(t, name)
	same := func(what string) {
		t.Helper()
		s := l.service(t, name)
		if len(s.Status.LoadBalancer.Ingress) != 1 || s.Status.LoadBalancer.Ingress[0].IP != address {
			t.Errorf("%s: the address was %s and is %v", what, address, s.Status.LoadBalancer.Ingress)
		}
		if s.Spec.Ports[0].NodePort != nodePort {
			t.Errorf("%s: NodePort was %d and is %d", what, nodePort, s.Spec.Ports[0].NodePort)
		}
	}
	same("type LoadBalancer")
	l.expectAnswer(t, protocol, address+":80", "")
	l.expectFinalizer(t, name, true)

	nodePort = map[string]int32{"TCP": 30061, "UDP": 30062}[protocol] // the API server gives nobody one below 30086 unasked
	ports := `{"spec": {"ports": [{"name": "main", "port": %d, "targetPort": 8080, "protocol": %q, "nodePort": %d}]}}`
	l.kubectl(t, "patch service "+name+" --type merge -p '"+fmt.Sprintf(ports, 80, protocol, nodePort)+"'")
	l.expectAnswer(t, protocol, address+":80", "")
	same("another NodePort")
	l.kubectl(t, "patch service "+name+" --type merge -p '"+fmt.Sprintf(ports, 81, protocol, nodePort)+"'")
	l.expectAnswer(t, protocol, address+":81", "")
	same("another port")

	l.patchService(t, name, `{"spec": {"selector": {"app": "nobody"}}}`)
	l.expectAnswer(t, protocol, address+":81", "refused")
	l.patchService(t, name, `{"spec": {"selector": {"app": "answer"}}}`)
	l.expectAnswer(t, protocol, address+":81", "")
	same("endpoints that went and came")

	l.patchService(t, name, `{"spec": {"type": "ClusterIP"}}`)
	l.expectAnswer(t, protocol, address+":81", "silence")
	l.expectFinalizer(t, name, false)
	if s := l.service(t, name); len(s.Status.LoadBalancer.Ingress) > 0 || s.Spec.Ports[0].NodePort != 0 {
		t.Errorf("as ClusterIP it has status %+v, NodePort %d", s.Status.LoadBalancer, s.Spec.Ports[0].NodePort)
	}
	l.patchService(t, name, `{"spec": {"type": "LoadBalancer"}}`)
	if again := l.waitAddress(t, name); again != address {
		t.Errorf("again of type LoadBalancer it has %s, before %s", again, address)
	}
	l.expectFinalizer(t, name, true)
	l.kubectl(t, "delete --timeout=20s service "+name)
}

func (l *lab) expectFinalizer(t *testing.T, name string, want bool) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("Service %s has its finalizer: %t", name, want), func() bool {
		return slices.Contains(l.service(t, name).Finalizers, "service.kubernetes.io/load-balancer-cleanup") == want
	})
}

// testNodePorts has a Service without NodePorts, which gets them later.
func (l *lab) testNodePorts(t *testing.T) {
	l.serve(t, "portless", "answer", "TCP", `"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false`)
	address := l.waitAddress(t, "portless")
	if p := l.service(t, "portless").Spec.Ports[0].NodePort; p != 0 {
		t.Errorf("it has NodePort %d", p)
	}
	l.expectAnswer(t, "TCP", address+":80", "")
	l.patchService(t, "portless", `{"spec": {"allocateLoadBalancerNodePorts": true}}`)
	s := l.service(t, "portless")
	if s.Spec.Ports[0].NodePort == 0 || s.Status.LoadBalancer.Ingress[0].IP != address {
		t.Errorf("NodePort %d, addresses %v, before %s", s.Spec.Ports[0].NodePort, s.Status.LoadBalancer.Ingress, address)
	}
	l.expectAnswer(t, "TCP", address+":80", "")
}

// testUDPCycle has a client that goes on with one socket, while its server is replaced on another machine and on the same.
// It is a Service of both protocols, too.
func (l *lab) testUDPCycle(t *testing.T) {
	l.pod(t, "cycle-1", "cycle", "w1")
	l.serve(t, "cycle", "cycle", "UDP", `"type": "LoadBalancer"`)
	l.kubectl(t, `patch service cycle --type merge -p '{"spec": {"ports": [{"name": "tcp", "port": 80, "targetPort": 8080,
 "protocol": "TCP"}, {"name": "main", "port": 80, "targetPort": 8080, "protocol": "UDP"}]}}'`)
	address := l.waitAddress(t, "cycle") + ":80"
	l.expectAnswer(t, "TCP", address, "cycle-1")
	l.expectAnswer(t, "UDP", address, "cycle-1")
	l.must(t, clientMachine, "systemd-run --quiet --unit cycle sh -c 'exec answerer watch "+address+" > /tmp/cycle'")
	t.Cleanup(func() { l.sh(t, clientMachine, "systemctl stop cycle") })
	before := "cycle-1"
	for _, next := range []struct{ pod, node string }{{"cycle-2", "w2"}, {"cycle-3", "w2"}} {
		l.kubectl(t, "delete --wait=false --now pod "+before)
		l.pod(t, next.pod, "cycle", next.node)
		l.kubectl(t, "wait --for=condition=Ready --timeout=2m pod/"+next.pod) // a busy machine takes its time to start one
		started := time.Now()
		eventually(t, 30*time.Second, "the client that goes on is answered by "+next.pod, func() bool {
			return strings.Contains(l.must(t, clientMachine, "tail -n 1 /tmp/cycle"), next.pod)
		})
		t.Logf("%s answers after %s", next.pod, time.Since(started).Round(100*time.Millisecond))
		before = next.pod
	}
}
