package unreachable

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"k8s.io/klog/v2"
)

// reason is that of the condition.
const reason = "MachineUnreachable"

// pod is one that is an endpoint.
type pod struct {
	types.NamespacedName

	uid types.UID
}

// withdraw marks the pods that are ready endpoints on the Node as not Ready, and returns how many. The controller of
// EndpointSlices does the rest.
func (w *Watcher) withdraw(ctx context.Context, node string) (int, error) {
	pods, err := w.endpointsOn(ctx, node)
	if err != nil {
		return 0, err
	}
	count := 0
	for _, p := range pods {
		switch err := w.markNotReady(ctx, p); {
		case apierrors.IsNotFound(err), apierrors.IsInvalid(err): // it is gone, or another one has its name
			klog.V(2).InfoS("A pod is not the one that was an endpoint", "pod", p.NamespacedName, "err", err)
		case err != nil:
			return count, err
		default:
			count++
		}
	}
	return count, nil
}

// endpointsOn lists the pods to which Services send on a Node.
func (w *Watcher) endpointsOn(ctx context.Context, node string) (map[types.UID]pod, error) {
	pods := map[types.UID]pod{}
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return w.Client.DiscoveryV1().EndpointSlices("").List(ctx, options)
	})
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		slice, ok := object.(*discoveryv1.EndpointSlice)
		if !ok {
			return fmt.Errorf("list EndpointSlices: %T among them", object)
		}
		for _, e := range slice.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			serving := e.Conditions.Serving != nil && *e.Conditions.Serving
			if e.NodeName == nil || *e.NodeName != node || e.TargetRef == nil || e.TargetRef.Kind != "Pod" || !ready && !serving {
				continue
			}
			name := types.NamespacedName{Namespace: slice.Namespace, Name: e.TargetRef.Name}
			pods[e.TargetRef.UID] = pod{name, e.TargetRef.UID}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list EndpointSlices: %w", err)
	}
	return pods, nil
}

// markNotReady writes the one condition that says where Services send. The UID is that of the pod that was meant.
func (w *Watcher) markNotReady(ctx context.Context, p pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.uid},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason,
			Message:            "the machine does not answer, nor does its kubelet renew its Lease",
			LastTransitionTime: metav1.NewTime(w.Now().Truncate(time.Second)),
		}}},
	})
	if err != nil {
		return err
	}
	_, err = w.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("mark Pod/%s/%s not Ready: %w", p.Namespace, p.Name, err)
	}
	return nil
}
