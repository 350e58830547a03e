package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// movedBalancers is what the guide makes of MetalLB's objects: the same addresses, router and ASNs.
	movedBalancers = `apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: fabric}
spec: {ranges: [192.0.2.32/27], level: BGP, autoAssign: false}
---
apiVersion: ccmadm.dev/v1alpha1
kind: BGPPeer
metadata: {name: router}
spec: {address: %s, asn: 64500, localASN: 64512}
`
	// speakersStay ties MetalLB's speakers to a label, so that one Node after the other can be taken from them.
	speakersStay = `{"spec":{"template":{"spec":{"nodeSelector":{"metallb":"stays"}}}}}`
)

// TestMigrationByBGP has MetalLB serve a cluster whose router speaks BGP, and follows the guide from there to ours. A
// client beyond the router looks on: the Service has its address all the time, and the client hardly notices.
func TestMigrationByBGP(t *testing.T) {
	t.Parallel()
	l := up(t, "migration", 1, 3, "--image", agentImage, "--binary", buildProgram(t, "prober"),
		"--image", answererArchive(t, buildProgram(t, "answerer")))
	l.must(t, "cp1", ccmadmInit+" --node-agent")
	join := l.joinCommand(t)
	l.must(t, "w1", join)
	l.must(t, "w2", join)
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	l.podOf(t, "echo", echoImage, "echo", "cp1")
	t.Cleanup(func() {
		if t.Failed() {
			l.metallb().explain(t)
			l.explainBalancers(t)
		}
	})
	// MetalLB was there before ccmadm.
	l.must(t, "cp1", "mv /etc/kubernetes/manifests/cloud-controller-manager.yaml /root/")
	l.startRouter(t, "hold time 9;")
	l.installMetalLB(t)
	l.api(t, "POST", services, l.serviceOf(contender{class: "null", asks: "metallb.io/loadBalancerIPs"}, "web", "echo",
		fabric, "Cluster"))
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/echo")
	eventually(t, patience, "MetalLB announces the address from both Nodes", func() bool { return l.twoPaths(t) })
	client := l.probe(t, "BGP", clientMachine, fabric+":80")
	eventually(t, patience, "the first answer", func() bool { return client.firstAfter(time.Time{}) > 0 })

	l.must(t, "cp1", "mv /root/cloud-controller-manager.yaml /etc/kubernetes/manifests/")
	l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
	started := time.Now()
	l.comeOverByBGP(t)
	if claim := l.kubectl(t, "get ipaddress "+fabric+" -o jsonpath='{.spec.parentRef.name}'"); claim != "web" {
		t.Errorf("the address is claimed for %q", claim)
	}
	f := client.figures(started, time.Now().Add(-time.Second))
	t.Logf("%d of %d connections lost, longest pause %s", f.lost, f.tried, f.outage)
	if f.outage > time.Second || f.lost > f.tried/100 {
		t.Errorf("%d of %d connections lost, none for %s; want one of a hundred at most, and a second", f.lost, f.tried, f.outage)
	}
	for _, s := range client.between(started, time.Now(), "connect") {
		if s.Error != "" {
			t.Logf("%s: %s", s.At.Sub(started).Round(10*time.Millisecond), s.Error)
		}
	}
}

// comeOverByBGP is the guide's way, with a look at the Service behind each step.
func (l *lab) comeOverByBGP(t *testing.T) {
	t.Helper()
	published := func(step string) {
		t.Helper()
		if got := l.service(t, "web").Status.LoadBalancer.Ingress; len(got) != 1 || got[0].IP != fabric {
			t.Errorf("%s: the Service has %v", step, got)
		}
	}
	l.kubectl(t, "-n metallb-system scale deployment controller --replicas 0")
	l.apply(t, fmt.Sprintf(movedBalancers, l.address(t, clientMachine)))
	eventually(t, time.Minute, "the address is claimed", func() bool {
		return l.sh(t, "cp1", admin+"get ipaddress "+fabric).code == 0
	})
	published("pools are made")
	l.kubectl(t, "label nodes --all metallb=stays")
	l.kubectl(t, "-n metallb-system patch daemonset speaker -p '"+speakersStay+"'")
	l.kubectl(t, "-n metallb-system rollout status daemonset/speaker --timeout=240s")
	eventually(t, patience, "speakers are back", func() bool { return l.twoPaths(t) })
	for _, node := range []string{"w1", "w2"} {
		began := time.Now()
		l.kubectl(t, "label node "+node+" metallb-")
		eventually(t, patience, "the agent on "+node+" announces", func() bool {
			return l.speaks(t, node) && l.twoPaths(t)
		})
		t.Logf("%s: its agent speaks after %s", node, time.Since(began).Round(time.Second))
		published(node + " has come over")
	}
	l.kubectl(t, "-n metallb-system delete daemonset speaker")
	l.kubectl(t, `patch addresspool fabric --type merge -p '{"spec":{"autoAssign":true}}'`)
	eventually(t, time.Minute, "the Service is announced", func() bool { return l.reason(t, "web") == "Announced" })
	published("MetalLB has gone")
}

// speaks says whether the Node's agent announces the address by BGP.
func (l *lab) speaks(t *testing.T, node string) bool {
	t.Helper()
	r := l.sh(t, "cp1", admin+announcedAddresses+" --field-selector metadata.name="+node)
	return r.code == 0 && slices.Contains(strings.Fields(r.out), fabric)
}
