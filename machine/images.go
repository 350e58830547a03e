package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// KubernetesNamespace is where containerd keeps what the kubelet runs.
const KubernetesNamespace = "k8s.io"

// HasImage asks the machine's container runtime whether it has an image, by its complete reference. It asks by crictl,
// which knows every runtime, else by containerd's ctr. An error says that it cannot be asked, which is not a no.
func (m *Machine) HasImage(ctx context.Context, ref string) (bool, error) {
	out, err := m.Output(ctx, "crictl", "images", "--quiet", ref)
	if err != nil {
		var last error
		out, last = m.Output(ctx, "ctr", "--namespace", KubernetesNamespace, "images", "list", "--quiet", "name=="+ref)
		if last != nil {
			return false, fmt.Errorf("ask the container runtime for image %s: %w", ref, errors.Join(err, last))
		}
	}
	return len(bytes.TrimSpace(out)) > 0, nil
}
