package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const (
	kubeadmYAML    = "/etc/lab/kubeadm.yaml"
	ignore         = "--ignore-preflight-errors SystemVerification"
	ccmadmInit     = "ccmadm init --config " + kubeadmYAML + " " + ignore
	taint          = "node.cloudprovider.kubernetes.io/uninitialized"
	controlPlane   = "node-role.kubernetes.io/control-plane"
	echoImage      = "lab.local/echo:1"
	joinCommandCmd = "ccmadm init phase show-join-command"
)

// joinCommand is the line that init printed, or prints again.
func (l *lab) joinCommand(t testing.TB) string {
	t.Helper()
	return joinLine(t, l.must(t, "cp1", joinCommandCmd))
}

// joinLine finds that line, which is the one for workers: init with --upload-certs prints one for control planes before it.
func joinLine(t testing.TB, output string) string {
	t.Helper()
	for line := range strings.SplitSeq(output, "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "ccmadm join ") && !strings.Contains(line, " --control-plane ") {
			return line + " " + ignore
		}
	}
	t.Fatal("no join command in the output")
	return ""
}

// nodesNow reads the cluster's nodes.
func (l *lab) nodesNow(t testing.TB) map[string]corev1.Node {
	t.Helper()
	var list corev1.NodeList
	if err := json.Unmarshal([]byte(l.kubectl(t, "get nodes -o json")), &list); err != nil {
		t.Fatal(err)
	}
	nodes := map[string]corev1.Node{}
	for _, n := range list.Items {
		nodes[n.Name] = n
	}
	return nodes
}

// initialized says what is missing before a node counts as initialized. Empty: nothing.
func initialized(n corev1.Node) string {
	var missing []string
	if !strings.HasPrefix(n.Spec.ProviderID, "onprem://") {
		missing = append(missing, fmt.Sprintf("providerID is %q", n.Spec.ProviderID))
	}
	for _, tt := range n.Spec.Taints {
		if tt.Key == taint {
			missing = append(missing, "taint "+taint)
		}
	}
	var internal bool
	for _, a := range n.Status.Addresses {
		internal = internal || a.Type == corev1.NodeInternalIP
	}
	if !internal {
		missing = append(missing, "no InternalIP")
	}
	return strings.Join(missing, ", ")
}

// expectCluster checks what every way of bootstrapping must end in: each machine is an initialized node with a
// provider ID of its own, CoreDNS runs, and pods on two workers reach each other.
func (l *lab) expectCluster(t testing.TB, nodes ...string) {
	t.Helper()
	l.expectInitialized(t, nodes...)
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node "+strings.Join(nodes, " "))
	l.kubectl(t, "-n kube-system rollout status deployment/coredns --timeout=240s")
	l.expectPodsTalk(t)
}

func (l *lab) expectInitialized(t testing.TB, names ...string) {
	t.Helper()
	nodes := l.nodesNow(t)
	owner := map[string]string{}
	for _, name := range names {
		n, ok := nodes[name]
		if !ok {
			t.Fatalf("node %s is not in the cluster", name)
		}
		if missing := initialized(n); missing != "" {
			t.Errorf("node %s: %s", name, missing)
		}
		if other := owner[n.Spec.ProviderID]; other != "" {
			t.Errorf("nodes %s and %s share the provider ID %s", other, name, n.Spec.ProviderID)
		}
		owner[n.Spec.ProviderID] = name
	}
	if t.Failed() {
		t.FailNow()
	}
}

// expectPodsTalk lets a pod on the first worker fetch a page from a pod on the second.
func (l *lab) expectPodsTalk(t testing.TB) {
	t.Helper()
	for _, w := range []string{"w1", "w2"} {
		l.kubectl(t, fmt.Sprintf(`run echo-%[1]s --image=%[2]s --image-pull-policy=Never --overrides='{"spec":{"nodeName":"%[1]s"}}'`, w, echoImage))
	}
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s pod/echo-w1 pod/echo-w2")
	for ip := range strings.FieldsSeq(l.kubectl(t, "get pod echo-w2 -o jsonpath='{.status.podIPs[*].ip}'")) {
		got := l.kubectl(t, fmt.Sprintf("exec echo-w1 -- /echo get http://%s/", net.JoinHostPort(ip, "8080")))
		if !strings.Contains(got, "echo-w2") {
			t.Errorf("the pod on w1 asked the pod on w2, at %s, for its name and got %q", ip, got)
		}
	}
}
