package manifeststest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Node makes one that is Ready, with an InternalIP and without the taint that an admission plugin gives to each new one.
func Node(t testing.TB, client kubernetes.Interface, name, address string) {
	t.Helper()
	nodes := client.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	if node, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	node.Spec.Taints = nil
	if _, err = nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// noNodes has kube-apiserver reach Nodes, pods and webhooks by a proxy at a socket that there is not.
const noNodes = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {uds: {udsName: %s}}
`

// WithoutNodes returns a flag for Start by which kube-apiserver reaches no kubelet: each connection to an address of a Node fails at
// once. Without it, what becomes of one to an address that no machine has is up to the network. Files are written into dir.
func WithoutNodes(dir string) (flag string, err error) {
	file := filepath.Join(dir, "egress.yaml")
	text := fmt.Sprintf(noNodes, filepath.Join(dir, "none"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the way to Nodes: %w", err)
	}
	return "--egress-selector-config-file=" + file, nil
}
