package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	metallbClass = "metallb.io/measured"
	// metallbBalancers has the shortest hold time that BGP knows, as the mode without FRR has no BFD.
	metallbBalancers = `apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: lan, namespace: metallb-system}
spec: {addresses: ["%[1]s-%[2]s"], autoAssign: false}
---
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: fabric, namespace: metallb-system}
spec: {addresses: [192.0.2.32/27]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: lan, namespace: metallb-system}
spec: {ipAddressPools: [lan]}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: fabric, namespace: metallb-system}
spec: {ipAddressPools: [fabric]}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: router, namespace: metallb-system}
spec: {peerAddress: %[3]s, peerASN: 64500, myASN: 64512, holdTime: 3s}
`
	metallbMany = `apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: many, namespace: metallb-system}
spec: {addresses: [198.18.0.0/24], serviceAllocation: {priority: 1, namespaces: [many]}}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: many, namespace: metallb-system}
spec: {ipAddressPools: [many]}
`
)

// metallb is MetalLB as its authors publish it for the mode without FRR, with a class of its own.
func (l *lab) metallb() contender {
	const namespace = admin + "-n metallb-system "
	return contender{
		who: "metallb", class: `"` + metallbClass + `"`, asks: "metallb.io/loadBalancerIPs", router: "hold time 9;",
		program: "speaker", agents: "-n metallb-system -l component=speaker",
		leave:   "node.kubernetes.io/exclude-from-external-load-balancers",
		many:    metallbMany,
		install: func(t *testing.T) { l.installMetalLB(t, "--lb-class="+metallbClass) },
		ready: func(t *testing.T) bool {
			r := l.sh(t, "cp1", namespace+"get daemonset/speaker deployment/controller -o "+
				"jsonpath='{.items[*].status.numberReady} {.items[*].status.readyReplicas}'")
			return strings.TrimSpace(r.out) == "3 1"
		},
		explain: func(t *testing.T) {
			t.Log(l.sh(t, "cp1", namespace+"get pods,events -o wide; "+admin+"get services; "+
				namespace+"logs --tail 60 --prefix -l app=metallb").out)
			t.Log(l.sh(t, clientMachine, "birdc show protocols all; birdc show route all; ip route; ip neigh").out)
		},
	}
}

// installMetalLB builds what the cache lacks. The arguments are further ones of both programs.
func (l *lab) installMetalLB(t *testing.T, args ...string) {
	t.Helper()
	dir := strings.TrimSpace(labOutput(t, "metallb"))
	l.run(t, "load", "--name", l.name, filepath.Join(dir, "controller.tar"), filepath.Join(dir, "speaker.tar"))
	l.run(t, "cp", "--name", l.name, filepath.Join(dir, "native.yaml"), "cp1:/tmp/native.yaml")
	for _, arg := range args {
		l.must(t, "cp1", `sed -i 's|^\( *\)- --log-level=info|&\n\1- `+arg+`|' /tmp/native.yaml`)
	}
	l.kubectl(t, "apply -f /tmp/native.yaml")
	for _, workload := range []string{"deployment/controller", "daemonset/speaker"} {
		l.kubectl(t, "-n metallb-system rollout status --timeout=240s "+workload)
	}
	objects := fmt.Sprintf(metallbBalancers, l.inSubnet(t, 200), l.inSubnet(t, 209), l.address(t, clientMachine))
	var said string
	eventually(t, 2*time.Minute, "MetalLB's webhook serves", func() bool {
		r := l.sh(t, "cp1", admin+"apply -f - <<'END'\n"+objects+"END")
		if r.code != 0 && r.out != said {
			said = r.out
			t.Log(said)
		}
		return r.code == 0
	})
}
