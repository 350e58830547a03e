package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// withdrawTimeout is for all of it: machines are not asked meanwhile.
	withdrawTimeout = 10 * time.Second
	// patchTimeout is for one pod, and patches at the same time: a webhook may have lost a machine, too.
	patchTimeout = 3 * time.Second
	patches      = 20
)

// withdraw marks pods on machines that are gone as not Ready, and the controller of EndpointSlices does the rest. What
// cannot be marked is tried again.
func (n *NodeProber) withdraw(ctx context.Context, gone []*corev1.Node, there map[string]bool) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTimeout)
	defer cancel()
	for _, node := range gone {
		n.machines[node.UID].tried = n.Now()
	}
	slices, known := n.Slices()
	if !known {
		klog.InfoS("Machines have failed, and EndpointSlices are not known yet; retrying", "machines", len(gone))
		return
	}
	e := readEndpoints(slices, gone, there)
	for _, node := range gone {
		pods, others := e.dispensable(node.Name)
		count, err := n.markAll(ctx, pods)
		m := n.machines[node.UID]
		m.withdrawn = err == nil && others == 0
		klog.InfoS("Withdrew endpoints of a failed machine", "node", node.Name, "pods", count,
			"others", others, "err", err)
		if m.told || count == 0 {
			continue
		}
		m.told = true
		n.Recorder.Eventf(node, corev1.EventTypeWarning, "EndpointsWithdrawn",
			"it does not answer at %s, nor does its kubelet renew its Lease: %s set to not Ready, so that Services send to "+
				"others; %s left, whose Services have no other on a machine that answers", addressOf(node), finding.Count(count, "pod"),
			finding.Count(others, "pod"))
	}
}

// markAll marks pods, some at a time, and returns how many were. One that is gone meanwhile, or another one of its
// name, is none.
func (n *NodeProber) markAll(ctx context.Context, pods []pod) (int, error) {
	var mu sync.Mutex
	var marking sync.WaitGroup
	var errs []error
	count := 0
	tokens := make(chan struct{}, patches)
	for _, p := range pods {
		tokens <- struct{}{}
		marking.Go(func() {
			defer func() { <-tokens }()
			err := n.markNotReady(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				count++
			case apierrors.IsNotFound(err), apierrors.IsInvalid(err):
				klog.V(2).InfoS("A pod was replaced since it was an endpoint", "pod", p.NamespacedName, "err", err)
			default:
				errs = append(errs, err)
			}
		})
	}
	marking.Wait()
	return count, errors.Join(errs...)
}

// markNotReady writes the one condition that says where Services send. The UID is that of the pod that was meant.
func (n *NodeProber) markNotReady(ctx context.Context, p pod) error {
	ctx, cancel := context.WithTimeout(ctx, patchTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.uid},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: v1alpha1.MachineUnreachable,
			Message:            "the machine does not answer, nor does its kubelet renew its Lease",
			LastTransitionTime: metav1.NewTime(n.Now().Truncate(time.Second)),
		}}},
	})
	if err != nil {
		return err
	}
	_, err = n.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("mark Pod/%s/%s not Ready: %w", p.Namespace, p.Name, err)
	}
	return nil
}
