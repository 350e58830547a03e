package e2e

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const agentImage = "../../bin/images/node-agent.tar"

// TestRoutes: `ccmadm init --routes` is all that a pod network takes. Pods of different machines, Services and names
// work, in both families, and go on doing so without the agent and without an API server.
func TestRoutes(t *testing.T) {
	t.Parallel()
	l := up(t, "routes", 1, 2, "--ip-family", "dual", "--image", agentImage)
	l.must(t, "cp1", ccmadmInit+" --routes")
	join := l.joinCommand(t)
	for _, w := range []string{"w1", "w2"} {
		l.must(t, w, join)
	}
	l.expectInitialized(t, "cp1", "w1", "w2")
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	l.kubectl(t, "wait --for=condition=NetworkUnavailable=false --timeout=240s node cp1 w1 w2")
	for name, node := range l.nodesNow(t) {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable && c.Reason != "RouteCreated" {
				t.Errorf("condition NetworkUnavailable of %s has reason %s", name, c.Reason)
			}
		}
	}
	l.kubectl(t, "-n kube-system rollout status deployment/coredns --timeout=240s")
	l.expectPodsTalk(t)
	t.Run("Services, on the pod's own machine too, and without br_netfilter", func(t *testing.T) { l.expectServices(t) })
	ip := strings.TrimSpace(l.kubectl(t, "get pod echo-w2 -o jsonpath='{.status.podIP}'"))
	ask := "curl -sf -m 2 http://" + net.JoinHostPort(ip, "8080") + "/"

	routed := l.podRoutes(t)
	if len(routed) != 6 { // three machines, two families; its own two are unreachable
		t.Errorf("the routes of w1 are %q, want 6", routed)
	}
	t.Run("a route that somebody removes is back", func(t *testing.T) {
		gone := slices.IndexFunc(routed, func(r string) bool { return strings.Contains(r, " via ") && !strings.Contains(r, "::") })
		l.must(t, "w1", "ip route del "+strings.Join(strings.Fields(routed[gone])[:3], " ")+"; sleep 0.5; "+ask)
		if now := l.podRoutes(t); !slices.Equal(routed, now) {
			t.Errorf("the routes of w1 are %q, want %q", now, routed)
		}
	})
	t.Run("a route of somebody else's is not touched", func(t *testing.T) {
		l.must(t, "w1", "ip route add 10.244.200.0/24 via $(ip route show default | awk '{print $3}') proto static; sleep 0.5; "+
			"ip route show 10.244.200.0/24 | grep 'proto static'; ip route del 10.244.200.0/24")
	})
	t.Run("agents that are replaced leave the routes", func(t *testing.T) {
		l.must(t, "w1", "systemd-run -q --unit=monitor sh -c 'exec ip monitor route > /tmp/monitor'")
		l.kubectl(t, "-n kube-system rollout restart daemonset/ccmadm-node-agent")
		l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
		l.must(t, "w1", "systemctl stop monitor && ! grep 'Deleted.*proto 158' /tmp/monitor && "+ask)
	})
	t.Run("without an API server everything goes on", func(t *testing.T) {
		l.must(t, "cp1", "mv /etc/kubernetes/manifests/kube-apiserver.yaml /root/")
		time.Sleep(15 * time.Second)
		l.must(t, "w1", ask)
		if now := l.podRoutes(t); !slices.Equal(routed, now) {
			t.Errorf("the routes of w1 are %q, want %q", now, routed)
		}
		l.must(t, "cp1", "mv /root/kube-apiserver.yaml /etc/kubernetes/manifests/")
		eventually(t, 90*time.Second, "the API server is back", func() bool {
			return l.sh(t, "cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes").code == 0
		})
	})
	t.Run("the routes to a Node that is deleted go ten seconds later", func(t *testing.T) {
		l.must(t, "w2", "systemctl stop kubelet")
		l.kubectl(t, "delete node w2")
		deleted := time.Now()
		eventually(t, 60*time.Second, "w1 has four routes", func() bool { return len(l.podRoutes(t)) == 4 })
		if took := time.Since(deleted); took < 8*time.Second {
			t.Errorf("they went after %s", took)
		}
	})
	t.Run("reset removes what is ours", func(t *testing.T) { l.expectResetWithoutRoutes(t) })
	t.Run("so does an agent without routes", func(t *testing.T) { l.expectRoutesSwitchedOff(t) })
}

// expectResetWithoutRoutes takes w1 out of the cluster.
func (l *lab) expectResetWithoutRoutes(t *testing.T) {
	t.Helper()
	const static = "10.244.200.0/24"
	l.must(t, "w1", "ip route add "+static+" via $(ip route show default | awk '{print $3}') proto static")
	const table = "nftables table inet ccmadm-pods"
	out := l.must(t, "w1", "ccmadm reset --dry-run")
	if n := strings.Count(out, "[dryrun] would remove route "); n != 4 || !strings.Contains(out, "[dryrun] would remove "+table) {
		t.Errorf("a dry run lists %d routes, want 4, and the table:\n%s", n, out)
	}
	if n := len(l.podRoutes(t)); n != 4 {
		t.Errorf("after a dry run there are %d routes, want 4", n)
	}
	if out := l.must(t, "w1", "ccmadm reset --force"); !strings.Contains(out, table+" removed") {
		t.Errorf("reset removed no table:\n%s", out)
	}
	if left := l.podRoutes(t); len(left) > 0 {
		t.Errorf("reset left %q", left)
	}
	if out := l.must(t, "w1", "ccmadm reset --dry-run; ip route show "+static); strings.Contains(out, table) || !strings.Contains(out, "proto static") {
		t.Errorf("want no table, and the route of somebody else's:\n%s", out)
	}
	l.kubectl(t, "delete node w1")
}

// expectRoutesSwitchedOff lets the agent of cp1, the only Node left, run as it does without routes.
func (l *lab) expectRoutesSwitchedOff(t *testing.T) {
	t.Helper()
	if len(l.podRoutesOn(t, "cp1")) == 0 {
		t.Fatal("cp1 has no routes")
	}
	// Whatever the DaemonSet's controller writes meanwhile is no reason to refuse it: kube-controller-manager has lost its
	// Lease with the API server, starts again after kubelet's back-off, and only then sees what has changed.
	l.kubectl(t, `-n kube-system get daemonset ccmadm-node-agent -o yaml | `+
		`grep -v -e --routes= -e --cluster-cidr= -e --cni-config-dir= -e resourceVersion: > /tmp/off.yaml`)
	l.kubectl(t, "replace -f /tmp/off.yaml")
	eventually(t, 3*time.Minute, "cp1 has no routes", func() bool { return len(l.podRoutesOn(t, "cp1")) == 0 })
	if out := l.must(t, "cp1", "ccmadm reset --dry-run"); strings.Contains(out, "would remove nftables") {
		t.Errorf("the table is still there:\n%s", out)
	}
}

// expectServices asks Services from a pod of w1, with pods on its own machine, itself included, and on the other one.
func (l *lab) expectServices(t *testing.T) {
	t.Helper()
	l.must(t, "w1", "sysctl -q -w net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0 || true")
	l.kubectl(t, fmt.Sprintf(`run near --image=%s --image-pull-policy=Never --overrides='{"spec":{"nodeName":"w1"}}'`, echoImage))
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/near")
	for _, name := range []string{"near", "echo-w1", "echo-w2"} {
		l.kubectl(t, "expose pod "+name+` --port 80 --target-port 8080 --overrides='{"spec":{"ipFamilyPolicy":"PreferDualStack"}}'`)
	}
	for _, name := range []string{"near", "echo-w1", "echo-w2"} {
		targets := strings.Fields(l.kubectl(t, "get service "+name+" -o jsonpath='{.spec.clusterIPs[*]}'"))
		if len(targets) != 2 {
			t.Errorf("Service %s has the addresses %q, want one of each family", name, targets)
		}
		for _, target := range append(targets, name+".default.svc.cluster.local") {
			url := "http://" + net.JoinHostPort(target, "80") + "/"
			eventually(t, 20*time.Second, "echo-w1 asks "+url, func() bool {
				r := l.sh(t, "cp1", "kubectl --kubeconfig /etc/kubernetes/admin.conf exec echo-w1 -- /echo get "+url)
				return r.code == 0 && strings.Contains(r.out, name)
			})
		}
	}
}

// podRoutes are the routes of our protocol on w1.
func (l *lab) podRoutes(t *testing.T) []string { return l.podRoutesOn(t, "w1") }

func (l *lab) podRoutesOn(t *testing.T, node string) []string {
	t.Helper()
	var list []string
	out := l.must(t, node, "ip -4 route show proto 158 type unicast; ip -4 route show proto 158 type unreachable; "+
		"ip -6 route show proto 158 type unicast; ip -6 route show proto 158 type unreachable")
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	slices.Sort(list)
	return list
}
