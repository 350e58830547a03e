package fleet

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubelet"
)

const (
	// UpgradeTakes is how long `ccmadm upgrade node` may on another machine: kubeadm waits five minutes for each of
	// four static pods, and the kubelet may have an image to pull.
	UpgradeTakes = 40 * time.Minute
	// UpgradeGrace is for a run that is told to stop, which writes so into the journal.
	UpgradeGrace = 2 * time.Minute
	// UpgradeBegins is how long a kubelet may take to begin a pod, whose image it may have to pull.
	UpgradeBegins = 5 * time.Minute
	// UpgradeAnswer is how long a machine may take to say what it has, by any way.
	UpgradeAnswer = UpgradeBegins + time.Minute
)

// OneAtATime keeps off machines that a pod is upgrading already: a driver that was killed leaves it at work, and
// kubeadm is better not cut short.
type OneAtATime struct {
	Inspector

	Client kubernetes.Interface
	Answer time.Duration // how long a machine may take to say what it has
}

// Show asks the machine, unless a pod changes it at the moment.
func (o OneAtATime) Show(ctx context.Context, n *Node, more ...string) (*kubelet.NodeReport, error) {
	if err := RefuseAtWork(ctx, o.Client, n); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Answer)
	defer cancel()
	return o.Inspector.Show(ctx, n, more...)
}

// Run changes the machine, unless a pod changes it at the moment.
func (o OneAtATime) Run(ctx context.Context, n *Node, t Task) error {
	if err := RefuseAtWork(ctx, o.Client, n); err != nil {
		return err
	}
	return o.Inspector.Run(ctx, n, t)
}

// RefuseAtWork finds a pod that changes the machine of a node.
func RefuseAtWork(ctx context.Context, client kubernetes.Interface, n *Node) error {
	for _, prefix := range []string{StepPrefix, UpgradePrefix} {
		pods, err := n.podsOfSteps(ctx, client, prefix)
		if err = cmp.Or(err, n.RefuseBeside(pods)); err != nil {
			return err
		}
	}
	return nil
}

// RefuseBeside finds those of these pods that have not come to their end on a node.
func (n *Node) RefuseBeside(pods []corev1.Pod) error {
	for i := range pods {
		if n.Runs(pods[i]) && (atWork(&pods[i]) || pods[i].Status.Phase == corev1.PodPending) {
			return atWorkError(n, &pods[i], "of a run that is under way or was cut short")
		}
	}
	return nil
}

// atWork tells whether a pod changes its machine, or may do so: what is not seen is not taken for an end.
func atWork(pod *corev1.Pod) bool {
	return pod != nil && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodUnknown)
}

func atWorkError(n *Node, pod *corev1.Pod, why string) *finding.Error {
	return finding.Refusedf("Pod/%s/%s is still running on Node/%s, %s", v1alpha1.Namespace, pod.Name, n.Name, why).
		WithHint("it finishes by itself (kubectl -n %s logs -f %s); then run the same command again: it resumes. "+
			"To stop it, delete it", v1alpha1.Namespace, pod.Name)
}

// leftAtWork is why nobody waits any more for an upgrade that goes on: kubeadm is better not cut short.
func leftAtWork(n *Node, pod *corev1.Pod, err error) error {
	left := atWorkError(n, pod, "and no run waits for it any more")
	return &finding.Error{Code: finding.ExitError, Err: fmt.Errorf("%w: %w", left.Err, err), Hint: left.Hint}
}
