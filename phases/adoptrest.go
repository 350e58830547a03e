package phases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// kubeletStep is the journal's name for a change of a kubelet, and initializeStep for that of a Node.
const (
	kubeletStep    = "kubelet"
	initializeStep = "initialize"
)

// noteCutShort marks nodes whose kubelet a run was changing when it was cut short: its files may be changed, and the
// process not, or a pod may be at it still. What such a kubelet says of itself now is not believed. It tells whether
// there are any. A taint of a run that has not come through is no taint of before.
func noteCutShort(ctx context.Context, client kubernetes.Interface, plan []*plannedNode) (bool, error) {
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return false, err
	}
	kubelets, initializes := lastStates(runs, kubeletStep), lastStates(runs, initializeStep)
	pods, err := podsOfSteps(ctx, client, stepPrefix)
	if err != nil {
		return false, finding.Refusedf("%w", err).WithHint("nothing was changed")
	}
	upgrades, err := podsOfSteps(ctx, client, upgradePrefix)
	if err != nil {
		return false, finding.Refusedf("%w", err).WithHint("nothing was changed")
	}
	found := false
	for _, n := range plan {
		if err := n.refuseBeside(upgrades); err != nil && !n.skipped {
			return false, err
		}
		if state, known := initializes[n.name]; known && state != journal.Done {
			n.tainted = false
		}
		state, known := kubelets[n.name]
		n.unsure = n.unsure || !n.skipped && (known && state != journal.Done || slices.ContainsFunc(pods, n.runs))
		found = found || n.unsure
	}
	return found, nil
}

// lastStates is how the last step of a name has ended, by Node.
func lastStates(runs []journal.Run, name string) map[string]journal.State {
	last := map[string]journal.State{}
	for _, run := range runs {
		for _, step := range run.Steps {
			if step.Name == name {
				last[step.Node] = step.State
			}
		}
	}
	return last
}

// podsOfSteps are those that runs have left. What a kubelet shows as its own is none.
func podsOfSteps(ctx context.Context, client kubernetes.Interface, prefix string) ([]corev1.Pod, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{
		MatchLabels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
	})
	var list *corev1.PodList
	err := journal.Ask(ctx, func(ctx context.Context) (err error) {
		list, err = client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for pods of a run that was cut short: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { // those of the node agent are its DaemonSet's
		return nodes.IsMirror(&p) || len(p.OwnerReferences) > 0 || !strings.HasPrefix(p.Name, prefix)
	}), nil
}

func (n *plannedNode) runs(p corev1.Pod) bool { return p.Spec.NodeName == n.name }

// endRest ends what a run that was cut short has left at work, before anything else is done: whoever comes after it
// would find its kubelet changed behind them.
func endRest(ctx context.Context, d *Data, client kubernetes.Interface, plan []*plannedNode) error {
	b := byPods{d: d, client: client, grace: 2*adoptionOf(d).NodeTimeout + time.Minute}
	for _, n := range plan {
		if !n.unsure {
			continue
		}
		d.Sayf("%s: a run was cut short while it changed the kubelet: it is done again", n.name)
		if err := b.removeFormer(ctx, n, stepPrefix); err != nil {
			return fmt.Errorf("end what a run has left on %s: %w", n.name, err)
		}
	}
	return nil
}
