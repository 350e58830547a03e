package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// testSourceRanges lets a client in, and keeps it out, outside of the cluster and in a pod.
func (l *lab) testSourceRanges(t *testing.T) {
	l.serve(t, "ranges", "answer", "TCP", `"type": "LoadBalancer"`)
	address := l.waitAddress(t, "ranges") + ":80"
	l.expectAnswer(t, "TCP", address, "")
	podIP := strings.TrimSpace(l.kubectl(t, "get pod more-w1 -o jsonpath='{.status.podIP}'"))
	for _, step := range []struct {
		name         string
		ranges       string
		outside, pod bool
	}{
		{"the pod and its machine", fmt.Sprintf(`["%s/32", "%s/32"]`, podIP, l.address(t, "w1")), false, true},
		{"the client", fmt.Sprintf(`["%s/32"]`, l.address(t, clientMachine)), true, false},
		{"everybody", `["0.0.0.0/1", "128.0.0.0/1"]`, true, true},
		{"nobody", `["255.0.0.0/32"]`, false, false},
		{"none given", `null`, true, true},
	} {
		l.patchService(t, "ranges", `{"spec": {"loadBalancerSourceRanges": `+step.ranges+`}}`)
		want := map[bool]string{true: "", false: "silence"}[step.outside]
		l.expectAnswer(t, "TCP", address, want)
		what := fmt.Sprintf("%s: the pod gets an answer: %t", step.name, step.pod)
		eventually(t, 20*time.Second, what, func() bool {
			return (l.fromPod(t, "more-w1", address) != "") == step.pod
		})
	}
}

// testAffinity has a client stay with one pod, and go to several when it need not any more.
func (l *lab) testAffinity(t *testing.T, policy string) {
	name := "affinity-" + strings.ToLower(policy)
	l.serve(t, name, "answer", "TCP",
		`"type": "LoadBalancer", "sessionAffinity": "ClientIP", "externalTrafficPolicy": "`+policy+`"`)
	address := l.waitAddress(t, name) + ":80"
	l.expectAnswer(t, "TCP", address, "")
	for _, step := range []struct {
		affinity string
		several  bool
	}{{"ClientIP", false}, {"None", true}, {"ClientIP", false}} {
		l.patchService(t, name, `{"spec": {"sessionAffinity": "`+step.affinity+`"}}`)
		what := fmt.Sprintf("affinity %s: several pods answer: %t", step.affinity, step.several)
		eventually(t, 30*time.Second, what, func() bool {
			hosts := map[string]bool{}
			out := l.sh(t, clientMachine, "for i in $(seq 20); do curl -s -m 2 http://"+address+"/ || echo lost; done").out
			for line := range strings.Lines(out) {
				hosts[strings.Fields(line + " -")[0]] = true
			}
			return !hosts["lost"] && (len(hosts) > 1) == step.several
		})
	}
}

// testLocal has a Service that only Nodes with an endpoint take packets for, and that shows its pods who asks.
func (l *lab) testLocal(t *testing.T) {
	l.pod(t, "local-1", "local", "w1")
	l.serve(t, "local", "local", "TCP", `"type": "LoadBalancer", "externalTrafficPolicy": "Local"`)
	address := l.waitAddress(t, "local") + ":80"
	client := l.address(t, clientMachine)
	l.expectAnswer(t, "TCP", address, "local-1 "+client)
	podIP := strings.TrimSpace(l.kubectl(t, "get pod more-w2 -o jsonpath='{.status.podIP}'"))
	eventually(t, 20*time.Second, "a pod of another machine asks, as itself", func() bool {
		return l.fromPod(t, "more-w2", address) == "local-1 "+podIP
	})
	port := l.service(t, "local").Spec.HealthCheckNodePort
	healthy := func(node string) bool {
		return l.sh(t, clientMachine, fmt.Sprintf("curl -sf -m 2 http://%s:%d/healthz", l.address(t, node), port)).code == 0
	}
	eventually(t, 20*time.Second, "w1 is healthy for the Service, w2 is not", func() bool {
		return healthy("w1") && !healthy("w2")
	})

	l.pod(t, "local-2", "local", "w2")
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/local-2")
	l.kubectl(t, "delete --wait=false pod local-1")
	l.expectAnswer(t, "TCP", address, "local-2 "+client)
	eventually(t, 20*time.Second, "w2 is healthy for the Service, w1 is not", func() bool {
		return healthy("w2") && !healthy("w1")
	})
	l.patchService(t, "local", `{"spec": {"type": "ClusterIP"}}`)
	eventually(t, 20*time.Second, "nobody answers for its health", func() bool { return !healthy("w1") && !healthy("w2") })
}

// testNoDisruption replaces whatever can be replaced, under the eyes of clients.
func (l *lab) testNoDisruption(t *testing.T) {
	clients := map[string]*onlooker{}
	for _, policy := range []string{"Cluster", "Local"} {
		name := "steady-" + strings.ToLower(policy)
		l.serve(t, name, "answer", "TCP", `"type": "LoadBalancer", "externalTrafficPolicy": "`+policy+`"`)
		address := l.waitAddress(t, name)
		l.expectAnswer(t, "TCP", address+":80", "")
		clients[policy] = l.probe(t, policy, clientMachine, address+":80", "eth0")
	}
	for _, step := range []struct{ name, do, wait string }{
		{"pods are replaced", "rollout restart daemonset/answer", "rollout status daemonset/answer --timeout=240s"},
		{
			"externalTrafficPolicy flips", `patch service steady-cluster -p '{"spec": {"externalTrafficPolicy": "Local"}}'`,
			`patch service steady-cluster -p '{"spec": {"externalTrafficPolicy": "Cluster"}}'`,
		},
		{
			"agents are replaced", "-n kube-system rollout restart daemonset/ccmadm-node-agent",
			"-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s",
		},
	} {
		l.expectSteady(t, step.name, clients, func() {
			l.kubectl(t, step.do)
			l.kubectl(t, step.wait)
		})
	}
	owner := l.machineOf(t, clients["Cluster"].owner())
	label := "label node " + owner + " node.kubernetes.io/exclude-from-external-load-balancers"
	l.expectSteady(t, "the owner is excluded", clients, func() { l.kubectl(t, label+"=") })
	if now := l.machineOf(t, clients["Cluster"].owner()); now == owner {
		t.Errorf("%s is excluded and still answers", owner)
	}
	l.kubectl(t, label+"-")
}

// expectSteady does something, and wants clients to lose one connection of a hundred at most.
func (l *lab) expectSteady(t *testing.T, name string, clients map[string]*onlooker, do func()) {
	t.Helper()
	started := time.Now()
	do()
	time.Sleep(4 * time.Second)
	for policy, c := range clients {
		f := c.figures(started, time.Now().Add(-time.Second))
		t.Logf("%s, %s: %d of %d connections lost, longest pause %s", name, policy, f.lost, f.tried, f.outage)
		if f.tried < 50 || f.lost*100 > f.tried {
			t.Errorf("%s, %s: %d of %d connections were lost", name, policy, f.lost, f.tried)
		}
		if f.double > 0 {
			t.Errorf("%s, %s: two machines claimed the address for %s", name, policy, f.double)
		}
	}
}
