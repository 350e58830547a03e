package phases

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// upgradeTakes is how long `ccmadm upgrade node` may on another machine: kubeadm waits five minutes for each of
	// four static pods, and the kubelet may have an image to pull.
	upgradeTakes = 40 * time.Minute
	// upgradeGrace is for a run that is told to stop, which writes so into the journal.
	upgradeGrace = 2 * time.Minute
	// upgradeBegins is how long a kubelet may take to begin a pod, whose image it may have to pull.
	upgradeBegins = 5 * time.Minute
	// upgradeAnswer is how long a machine may take to say what it has, by any way.
	upgradeAnswer = upgradeBegins + time.Minute
)

// upgradeWay is how the others are reached.
func upgradeWay(d *Data, client kubernetes.Interface) asker {
	if r := upgradeOf(d).Remote; r.Via == ViaPods {
		pods := &byPods{d: d, client: client, image: r.Image, prefix: upgradePrefix}
		pods.begins, pods.takes, pods.grace = upgradeBegins, upgradeTakes, upgradeGrace
		return oneAtATime{pods, client, upgradeAnswer}
	}
	return oneAtATime{bySSH{d: d, user: upgradeOf(d).SSHUser, takes: upgradeTakes}, client, upgradeAnswer}
}

// oneAtATime keeps off machines that a pod is upgrading already: a driver that was killed leaves it at work, and
// kubeadm is better not cut short.
type oneAtATime struct {
	asker

	client kubernetes.Interface
	answer time.Duration // how long a machine may take to say what it has
}

func (o oneAtATime) show(ctx context.Context, n *plannedNode, more ...string) (*NodeReport, error) {
	if err := refuseAtWork(ctx, o.client, n); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.answer)
	defer cancel()
	return o.asker.show(ctx, n, more...)
}

func (o oneAtATime) run(ctx context.Context, n *plannedNode, args ...string) error {
	if err := refuseAtWork(ctx, o.client, n); err != nil {
		return err
	}
	return o.asker.run(ctx, n, args...)
}

// refuseAtWork finds a pod that changes the machine of a node.
func refuseAtWork(ctx context.Context, client kubernetes.Interface, n *plannedNode) error {
	for _, prefix := range []string{stepPrefix, upgradePrefix} {
		pods, err := podsOfSteps(ctx, client, prefix)
		if err = cmp.Or(err, n.refuseBeside(pods)); err != nil {
			return err
		}
	}
	return nil
}

// refuseBeside finds those of these pods that have not come to their end on a node.
func (n *plannedNode) refuseBeside(pods []corev1.Pod) error {
	for i := range pods {
		if n.runs(pods[i]) && (atWork(&pods[i]) || pods[i].Status.Phase == corev1.PodPending) {
			return atWorkError(n, &pods[i], "of a run that is under way or was cut short")
		}
	}
	return nil
}

// atWork tells whether a pod changes its machine, or may do so: what is not seen is not taken for an end.
func atWork(pod *corev1.Pod) bool {
	return pod != nil && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodUnknown)
}

func atWorkError(n *plannedNode, pod *corev1.Pod, why string) *finding.Error {
	return finding.Refusedf("Pod/%s/%s is at work on Node/%s, %s", v1alpha1.Namespace, pod.Name, n.name, why).
		WithHint("it comes to its end by itself, and then the same command goes on: kubectl -n %s logs -f %s; "+
			"to stop it, delete it", v1alpha1.Namespace, pod.Name)
}

// leftAtWork is why nobody waits any more for an upgrade that goes on: kubeadm is better not cut short.
func leftAtWork(n *plannedNode, pod *corev1.Pod, err error) error {
	left := atWorkError(n, pod, "and nobody waits for it any more")
	return &finding.Error{Code: finding.ExitError, Err: fmt.Errorf("%w: %w", left.Err, err), Hint: left.Hint}
}
