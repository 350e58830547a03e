package manifeststest

import (
	"fmt"
	"os"
	"path/filepath"
)

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
