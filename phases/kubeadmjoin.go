package phases

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeutil "k8s.io/component-helpers/node/util"
)

func kubeadmJoin() Phase {
	return Phase{
		Name:  "kubeadm",
		Short: "Run kubeadm join",
		Long:  `Runs "kubeadm join --config ` + KubeadmConfig + `" and streams what it prints. On a machine that has joined, kubeadm is not run again.`,
		Run: func(ctx context.Context, d *Data) error {
			if d.joined(ctx) {
				d.Sayf("unchanged: this machine has joined")
				return nil
			}
			args := []string{"join", "--config=" + KubeadmConfig}
			if _, err := os.Stat(kubeletConf); err == nil {
				args = append(args, "--skip-phases=preflight") // an earlier run came this far; its files are no obstacle
			}
			return d.kubeadm(ctx, append(d.kubeadmFlags(args), d.KubeadmRest...)...)
		},
	}
}

// joined asks the API server, with this machine's own certificate, for its Node.
func (d *Data) joined(ctx context.Context) bool {
	if _, err := os.Stat(kubeletConf); err != nil {
		return false
	}
	client, err := d.client(kubeletConf)
	if err != nil {
		return false
	}
	name, err := d.nodeName()
	if err != nil {
		return false
	}
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false
	}
	_, marked := node.Labels[controlPlaneLabel]
	return marked || !d.Kubeadm.JoinsControlPlane()
}

// nodeName follows kubeadm: a hostname-override among the kubelet's arguments, the configured name, the host name.
func (d *Data) nodeName() (string, error) {
	name, err := nodeutil.GetHostname(d.Kubeadm.NodeName(d.Role))
	if err != nil {
		return "", fmt.Errorf("choose the node's name: %w", err)
	}
	return name, nil
}
