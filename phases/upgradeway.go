package phases

import (
	"context"
	"slices"
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
	if r := d.Upgrade.Remote; r.Via == ViaPods {
		pods := &byPods{d: d, client: client, image: r.Image, begins: upgradeBegins, takes: upgradeTakes, grace: upgradeGrace}
		return oneAtATime{pods, client, upgradeAnswer}
	}
	return oneAtATime{bySSH{d: d, user: d.Upgrade.SSHUser, takes: upgradeTakes}, client, upgradeAnswer}
}

// oneAtATime keeps off machines that a pod is upgrading already: a driver that was killed leaves it at work, and
// kubeadm is better not cut short.
type oneAtATime struct {
	asker

	client kubernetes.Interface
	answer time.Duration // how long a machine may take to say what it has
}

func (o oneAtATime) show(ctx context.Context, n *plannedNode) (*NodeReport, error) {
	if err := refuseAtWork(ctx, o.client, n); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.answer)
	defer cancel()
	return o.asker.show(ctx, n)
}

func (o oneAtATime) run(ctx context.Context, n *plannedNode, args ...string) error {
	if err := refuseAtWork(ctx, o.client, n); err != nil {
		return err
	}
	return o.asker.run(ctx, n, args...)
}

func refuseAtWork(ctx context.Context, client kubernetes.Interface, n *plannedNode) error {
	pods, err := podsOfSteps(ctx, client, stepPrefix)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pods, func(p corev1.Pod) bool {
		return n.runs(p) && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
	})
	if i < 0 {
		return nil
	}
	name := pods[i].Name
	return finding.Refusedf("Pod/%s/%s is at work there, of a run that is under way or was cut short",
		v1alpha1.Namespace, name).
		WithHint("it comes to its end by itself, and then the same command goes on: kubectl -n %s logs -f %s; "+
			"to stop it, delete it", v1alpha1.Namespace, name)
}
