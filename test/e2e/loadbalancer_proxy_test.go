package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const proxyPool = `apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: relayed}
spec: {ranges: ["%s-%s"], level: Proxy, autoAssign: false}
`

// testProxyLevel has agents carry connections: a pod reads in a header who the client is, whatever Node it is on, and
// clients in pods come the same way. The address moves, and SCTP is refused.
func (l *lab) testProxyLevel(t *testing.T) {
	l.apply(t, fmt.Sprintf(proxyPool, l.inSubnet(t, 220), l.inSubnet(t, 229)))
	l.serveProxied(t, "relayed", "TCP")
	address := l.waitAddress(t, "relayed")
	mode := l.service(t, "relayed").Status.LoadBalancer.Ingress[0].IPMode
	if mode == nil || *mode != corev1.LoadBalancerIPModeProxy {
		t.Errorf("published with mode %v, want Proxy", mode)
	}
	client := l.address(t, clientMachine)
	l.expectAnswer(t, "TCP", address+":80", " "+client)
	for _, node := range []string{"w1", "w2"} {
		pod := strings.TrimSpace(l.kubectl(t, "get pod more-"+node+" -o jsonpath='{.status.podIP}'"))
		var got string
		eventually(t, 20*time.Second, "a pod on "+node+" asks, as itself or by its Node", func() bool {
			got = l.fromPod(t, "more-"+node, address+":80")
			return strings.HasSuffix(got, " "+pod) || strings.HasSuffix(got, " "+l.address(t, node))
		})
		t.Logf("a pod on %s, %s, is seen as %q", node, pod, got)
	}

	owner := l.announcer(t, address)
	l.kubectl(t, "label node "+owner+" ccmadm.dev/drain=true")
	eventually(t, 20*time.Second, "another Node has the address", func() bool {
		now := l.announcer(t, address)
		return now != "" && now != owner
	})
	l.expectAnswer(t, "TCP", address+":80", " "+client)
	l.kubectl(t, "label node "+owner+" ccmadm.dev/drain-")

	l.serveProxied(t, "refused", "SCTP")
	l.kubectl(t, "wait --for=condition=ccmadm.dev/LoadBalancerReady=false --timeout=60s service/refused")
	refused := l.service(t, "refused")
	if said := fmt.Sprint(refused.Status.Conditions); !strings.Contains(said, "LevelLacks") ||
		len(refused.Status.LoadBalancer.Ingress) > 0 {
		t.Errorf("a Service with SCTP: conditions %s, status %v", said, refused.Status.LoadBalancer)
	}
	l.kubectl(t, "delete service relayed refused")
}

// serveProxied makes a Service at level Proxy whose pods get a header.
func (l *lab) serveProxied(t *testing.T, name, protocol string) {
	t.Helper()
	l.apply(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q, "annotations": {
 "ccmadm.dev/address-pool": "relayed", "ccmadm.dev/proxy-protocol": "v2"}}, "spec": {"type": "LoadBalancer",
 "selector": {"app": "answer"},
 "ports": [{"name": "main", "port": 80, "targetPort": 8080, "protocol": %q}]}}`, name, protocol))
}

// announcer is the Node whose agent reports that it announces the address; empty: none.
func (l *lab) announcer(t *testing.T, address string) string {
	t.Helper()
	return strings.TrimSpace(l.kubectl(t, "get nodeagents -o jsonpath='"+
		`{.items[?(@.status.announcements[*].address=="`+address+`")].metadata.name}'`))
}
