package e2e

import (
	"fmt"
	"testing"
	"time"
)

// oldPool is as the guide has it for coming over, for a Service of somebody else's.
const oldPool, foreignService = `apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: old}
spec: {ranges: ["%s-%s"], level: L2, autoAssign: false, nodes: {matchLabels: {kubernetes.io/hostname: w2}}}
`, `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": %q, "annotations": {%q: %q}},
 "spec": {"type": "LoadBalancer", "selector": {"app": "answer"}, "ports": [{"port": 80, "targetPort": 8080}]}}`

// testMigration has Services with annotations of MetalLB and of kube-vip, with the address in their status that these
// left there, and an address on the interface of w1, which answers as they do. Clients look on while this one takes over.
func (l *lab) testMigration(t *testing.T) {
	addresses := map[string]string{"metallb.io/loadBalancerIPs": "", "kube-vip.io/loadbalancerIPs": ""}
	names, clients := map[string]string{}, map[string]*onlooker{}
	host := byte(230)
	// All of that was there before ccmadm.
	l.must(t, "cp1", "mv /etc/kubernetes/manifests/cloud-controller-manager.yaml /root/")
	eventually(t, 60*time.Second, "the provider has stopped", func() bool {
		return l.sh(t, "cp1", "pidof cloud-controller-manager").code != 0
	})
	for annotation := range addresses {
		name, address := fmt.Sprint("old-", host), l.inSubnet(t, host).String()
		addresses[annotation], names[annotation] = address, name
		host++
		l.apply(t, fmt.Sprintf(foreignService, name, annotation, address))
		l.kubectl(t, fmt.Sprintf(`patch service %s --subresource=status -p `+
			`'{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}'`, name, address))
		l.must(t, "w1", "ip address add "+address+"/32 dev eth0")
		l.expectAnswer(t, "TCP", address+":80", "")
		clients[annotation] = l.probe(t, annotation, clientMachine, address+":80", "eth0")
	}
	l.must(t, "cp1", "mv /root/cloud-controller-manager.yaml /etc/kubernetes/manifests/")
	l.kubectl(t, "create service loadbalancer other --tcp=81:8080")
	time.Sleep(10 * time.Second)
	for annotation, name := range names {
		if s := l.service(t, name); l.reason(t, name) != "" || s.Status.LoadBalancer.Ingress[0].IP != addresses[annotation] {
			t.Errorf("without a pool, Service %s has status %+v", name, s.Status)
		}
	}
	started := time.Now()
	l.apply(t, fmt.Sprintf(oldPool, l.inSubnet(t, 230), l.inSubnet(t, 239)))
	for annotation, name := range names {
		eventually(t, 20*time.Second, name+" waits for the old one to go", func() bool {
			return l.reason(t, name) == "AddressConflict"
		})
		if got := clients[annotation].owner(); l.machineOf(t, got) != "w1" {
			t.Errorf("%s answers for %s, which w1 has", got, addresses[annotation])
		}
	}
	removed := time.Now()
	for annotation, address := range addresses {
		l.must(t, "w1", "ip address del "+address+"/32 dev eth0")
		eventually(t, 20*time.Second, "w2 answers for "+address, func() bool {
			return l.machineOf(t, clients[annotation].owner()) == "w2"
		})
	}
	for annotation, name := range names {
		eventually(t, 20*time.Second, name+" is announced", func() bool { return l.reason(t, name) == "Announced" })
		if got := l.service(t, name).Status.LoadBalancer.Ingress; len(got) != 1 || got[0].IP != addresses[annotation] {
			t.Errorf("Service %s had %s and has %v", name, addresses[annotation], got)
		}
		f := clients[annotation].figures(started, time.Now().Add(-time.Second))
		t.Logf("%s: %d of %d connections lost, longest pause %s, no answer to ARP for %s; over after %s", annotation,
			f.lost, f.tried, f.outage, f.silent, time.Since(removed).Round(time.Second))
		if f.double > 0 {
			t.Errorf("%s: two machines claimed the address for %s", annotation, f.double)
		}
		if limit := 3 * time.Second; f.outage > limit || f.tried < 50 {
			t.Errorf("%s: no connection for %s, want %s at most", annotation, f.outage, limit)
		}
	}
}

// reason is that of the Service's condition.
func (l *lab) reason(t *testing.T, name string) string {
	t.Helper()
	for _, c := range l.service(t, name).Status.Conditions {
		if c.Type == "ccmadm.dev/LoadBalancerReady" {
			return c.Reason
		}
	}
	return ""
}
