package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sourcesSeen has the client's machine note from which addresses its server is asked.
const sourcesSeen = `nft -f - <<'END'
table inet seen {
 set sources { type ipv4_addr; flags dynamic; timeout 1h; }
 chain in { type filter hook input priority -300; tcp dport 8080 ct state new add @sources { ip saddr }; }
}
END`

// TestEgress: packets of a Service's pods reach a machine outside with the address of the Service, on each Node, while the owner of the address
// changes, loses its power, and while agents are replaced. Packets of other pods, and those within the cluster, are as before.
func TestEgress(t *testing.T) {
	t.Parallel()
	l := egressLab(t, "egress", "nftables", "--routes")
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	l.testEgress(t)
}

// TestEgress_Flannel is the same with a network add-on that has an overlay, VXLAN, and masquerades packets of pods, and with
// kube-proxy in mode iptables.
func TestEgress_Flannel(t *testing.T) {
	t.Parallel()
	l := egressLab(t, "flannel", "iptables", "--node-agent", "--binary", buildFlannel(t))
	kubeconfig := l.must(t, "cp1", "cat /etc/kubernetes/admin.conf")
	for _, node := range []string{"cp1", "w1", "w2"} {
		l.must(t, node, fmt.Sprintf(flannel, node, kubeconfig))
	}
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	l.testEgress(t)
}

// flannel runs the add-on's daemon on a machine, and does what its CNI plugin does: a bridge with the range of pods that the daemon has written.
const flannel = `set -e
cat > /root/admin.conf <<'END'
%[2]s
END
mkdir -p /etc/kube-flannel /etc/cni/net.d
echo '{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}' > /etc/kube-flannel/net-conf.json
systemd-run --quiet --unit flannel --setenv NODE_NAME=%[1]s flanneld --ip-masq --kube-subnet-mgr --kubeconfig-file=/root/admin.conf --iface=eth0
for n in $(seq 100); do [ -e /run/flannel/subnet.env ] && break; sleep 0.2; done
. /run/flannel/subnet.env
cat > /etc/cni/net.d/10-flannel.conflist <<END
{"cniVersion": "1.0.0", "name": "cbr0", "plugins": [{"type": "bridge", "bridge": "cni0", "mtu": $FLANNEL_MTU, "isDefaultGateway": true,
 "hairpinMode": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "$(echo $FLANNEL_SUBNET | sed 's|[0-9]*/|0/|')"}]], "routes": [{"dst": "$FLANNEL_NETWORK"}]}}]}
END`

// buildFlannel compiles the add-on's daemon. One of its backends is written in C.
func buildFlannel(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "flanneld")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "netgo,osusergo", "-ldflags", "-extldflags -static", "-o", program,
		"github.com/flannel-io/flannel")
	build.Dir, build.Env = "../lab/flannel", append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build flannel: %v\n%s", err, out)
	}
	return program
}

// egressLab is a cluster of three machines, and a fourth outside of it. proxy is kube-proxy's mode, flag is for ccmadm init, and machines are
// flags of the lab.
func egressLab(t *testing.T, name, proxy, flag string, machines ...string) *lab {
	t.Helper()
	answerer := buildProgram(t, "answerer")
	l := up(t, name, 1, 3, append([]string{"--image", agentImage, "--binary", answerer}, machines...)...)
	l.run(t, "load", "--name", l.name, answererArchive(t, answerer))
	l.must(t, "cp1", "sed -i 's/^mode: nftables$/mode: "+proxy+"/' "+kubeadmYAML)
	l.must(t, "cp1", ccmadmInit+" "+flag)
	join := l.joinCommand(t)
	for _, node := range []string{"w1", "w2"} {
		l.must(t, node, join)
	}
	return l
}

// testEgress runs pods, and a server on the machine outside.
func (l *lab) testEgress(t *testing.T) {
	t.Helper()
	for _, node := range []string{"w1", "w2"} {
		l.pod(t, "out-"+node, "out", node)
		l.pod(t, "other-"+node, "other", node)
	}
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod -l 'app in (out,other)'")
	l.must(t, clientMachine, "systemd-run --quiet --collect --unit server answerer")
	server := l.address(t, clientMachine) + ":8080"
	l.apply(t, fmt.Sprintf(lanPool, l.inSubnet(t, 200), l.inSubnet(t, 219)))
	l.serve(t, "out", "out", "TCP", `"type": "LoadBalancer"`)
	address := l.waitAddress(t, "out")
	from := func(pod string) string { return sourceOf(l.fromPod(t, pod, server)) }
	expect := func(pod, source string) {
		t.Helper()
		got := ""
		eventually(t, 30*time.Second, "packets of pod "+pod+" come from "+source, func() bool { got = from(pod); return got == source })
	}
	expect("out-w1", l.address(t, "w1"))
	l.kubectl(t, "label service out ccmadm.dev/egress=true")
	expect("out-w1", address)
	expect("out-w2", address)
	for _, node := range []string{"w1", "w2"} {
		if got := from("other-" + node); got != l.address(t, node) {
			t.Errorf("packets of pod other-%s come from %q, want its Node's address", node, got)
		}
	}
	inside := strings.TrimSpace(l.kubectl(t, "get pod out-w1 -o jsonpath='{.status.podIP}'"))
	for _, pod := range []string{"other-w1", "other-w2"} {
		ip := strings.TrimSpace(l.kubectl(t, "get pod "+pod+" -o jsonpath='{.status.podIP}'"))
		if got := sourceOf(l.fromPod(t, "out-w1", ip+":8080")); got != inside {
			t.Errorf("pod %s is asked by %q, want the pod's own address", pod, got)
		}
	}
	l.expectAnswer(t, "TCP", address+":80", "out-")
	if got := l.kubectl(t, `get service out -o jsonpath='{.status.conditions[?(@.type=="ccmadm.dev/LoadBalancerReady")].message}'`); !strings.
		Contains(got, address+" at level L2, also for packets from its pods") {
		t.Errorf("the condition says %q", got)
	}

	for _, node := range []string{"w1", "w2"} {
		l.must(t, node, "nft list ruleset > /tmp/ruleset && grep -c ccmadm-egress /tmp/ruleset") // Debian 12's reads what is in it
	}
	l.must(t, clientMachine, sourcesSeen)
	for _, node := range []string{"w1", "w2"} {
		l.must(t, node, "for pid in $(pgrep -x answerer); do grep -qz HOSTNAME=out- /proc/$pid/environ || continue; "+
			"exec systemd-run --quiet --collect --unit sender nsenter -t $pid -n sh -c "+
			"'while :; do curl -s -m 2 http://"+server+"/ >/dev/null; sleep 0.05; done'; done; false")
	}
	t.Run("the owner changes", func(t *testing.T) {
		for range 5 {
			for _, node := range []string{"w1", "w2"} {
				l.kubectl(t, "label node "+node+" ccmadm.dev/drain=true")
				time.Sleep(2 * time.Second)
				l.kubectl(t, "label node "+node+" ccmadm.dev/drain-")
				time.Sleep(2 * time.Second)
			}
		}
		expect("out-w1", address)
		expect("out-w2", address)
	})
	t.Run("agents are replaced", func(t *testing.T) {
		l.kubectl(t, "-n kube-system rollout restart daemonset/ccmadm-node-agent")
		l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
		expect("out-w1", address)
		expect("out-w2", address)
	})
	t.Run("power cut", func(t *testing.T) {
		l.kubectl(t, "label node w2 ccmadm.dev/drain=true")
		time.Sleep(2 * time.Second)
		l.kubectl(t, "label node w2 ccmadm.dev/drain-")
		l.run(t, "kill", "--name", l.name, "w1")
		cut := time.Now()
		expect("out-w2", address)
		t.Logf("pod out-w2 reached the server %s after the power cut of w1", time.Since(cut).Round(100*time.Millisecond))
		l.run(t, "start", "--name", l.name, "w1")
	})
	if seen := l.must(t, clientMachine, "nft list set inet seen sources"); strings.Count(seen, "expires") != 1 || !strings.Contains(seen, address) {
		t.Errorf("while the owner changed, the server was asked from\n%s\nwant %s alone", seen, address)
	}
	t.Run("switched off", func(t *testing.T) {
		l.must(t, "w2", "systemctl stop sender")
		l.kubectl(t, "label service out ccmadm.dev/egress-")
		expect("out-w2", l.address(t, "w2"))
		if left := l.must(t, "w2", "ip rule show | grep 1580: || true; ip -6 rule show | grep 1580: || true; ip route show table all | grep 'table 158' || true; "+
			"nft list tables | grep egress || true"); strings.TrimSpace(left) != "" {
			t.Errorf("w2 still has\n%s", left)
		}
	})
}

// sourceOf is the client's address in an answer of the server.
func sourceOf(answer string) string {
	fields := strings.Fields(answer)
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1]
}
