package bootstrap

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// nextSteps are what a person does after init, in the order of kubeadm's own message:
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kubeadm/app/cmd/init.go
type nextSteps struct {
	// join is the command of a worker.
	join string
	// needsNetwork says that pods are not connected yet.
	needsNetwork bool
	// shared says whether the cluster has an address that all control planes share.
	shared sharedEndpoint
	// key is that of the certificates that were uploaded in this run, if they were.
	key string
}

// sharedEndpoint says whether a cluster has a controlPlaneEndpoint, without which no control plane joins.
type sharedEndpoint string

const (
	hasEndpoint     sharedEndpoint = "yes"
	lacksEndpoint   sharedEndpoint = "no"
	unknownEndpoint sharedEndpoint = "unknown" // the cluster did not answer
)

// findNextSteps asks the cluster. What cannot be asked counts as still to be done.
func findNextSteps(ctx context.Context, r *workflow.Run) (nextSteps, error) {
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return nextSteps{}, err
	}
	s, err := r.Settings(ctx)
	if err != nil {
		return nextSteps{}, err
	}
	agentsConnect := s.WantsRoutes() && s.Profile.NodeAgent != nil
	return nextSteps{
		needsNetwork: !agentsConnect && !someNodeReady(ctx, client),
		shared:       findEndpoint(ctx, client),
		key:          r.Course.CertificateKey,
	}, nil
}

// someNodeReady tells whether the cluster has a pod network: a kubelet without one is not Ready.
func someNodeReady(ctx context.Context, client kubernetes.Interface) bool {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list.Items, func(n corev1.Node) bool {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
}

// findEndpoint reads the configuration by which kubeadm lets control planes join.
func findEndpoint(ctx context.Context, client kubernetes.Interface) sharedEndpoint {
	live, err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Get(ctx, workflow.KubeadmConfigName, metav1.GetOptions{})
	if err != nil {
		return unknownEndpoint
	}
	file, err := kubeadm.Parse("kubeadm-config", []byte(live.Data["ClusterConfiguration"]))
	switch {
	case err != nil:
		return unknownEndpoint
	case file.ControlPlaneEndpoint() == "":
		return lacksEndpoint
	}
	return hasEndpoint
}

const (
	useCluster = "\nThe control plane is up. To use the cluster:\n\n  export KUBECONFIG=" + machine.AdminConf + "\n"

	installNetwork = `
Install a pod network add-on: until then no Node is Ready, and CoreDNS stays Pending. Run "kubectl apply -f ADDON.yaml" with one of:

  https://kubernetes.io/docs/concepts/cluster-administration/addons/
`
	uploadCertificates = `"kubeadm init phase upload-certs --upload-certs"`

	keepKeySecret = `
The certificate key gives access to the cluster's private keys: keep it secret. kubeadm deletes the uploaded certificates after two
hours. ` + uploadCertificates + ` uploads them again, and prints a new key.
`
	withoutKey = `
Further control planes join with the command for workers, and with "--control-plane --certificate-key KEY" after it.
` + uploadCertificates + ` on this machine prints KEY.
`
	withoutEndpoint = `
No further control plane can join, because this cluster has no controlPlaneEndpoint: "ccmadm init --control-plane-vip ADDRESS" makes
a cluster with one.
`
)

// text is the message. Without a key only one line has a command to join, for scripts that look for it.
func (n nextSteps) text() string {
	var b strings.Builder
	b.WriteString(useCluster)
	if n.needsNetwork {
		b.WriteString(installNetwork)
	}
	switch {
	case n.shared == lacksEndpoint && n.key != "":
		b.WriteString(withoutEndpoint)
	case n.shared == lacksEndpoint: // of a cluster with one control plane nothing is expected
	case n.key == "":
		b.WriteString(withoutKey)
	default:
		b.WriteString("\nFurther control planes join with:\n\n  " + n.join + " --control-plane --certificate-key " + n.key + "\n" + keepKeySecret)
	}
	b.WriteString("\nWorkers join with:\n\n  " + n.join + "\n\n")
	return b.String()
}
