package kubelet

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// Taint sets or removes the taint by which a cloud-controller-manager knows what to initialize. NoSchedule leaves pods
// that run alone. One that has been initialized in the meantime is left alone, too. An API server that does not answer
// is asked again, as is one that says that the Node was changed meanwhile.
func Taint(ctx context.Context, client kubernetes.Interface, name string, set bool) error {
	err := journal.Ask(ctx, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil || nodes.IsTainted(node) == set {
			return err
		}
		if set {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
				Key: v1alpha1.UninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule,
			})
		} else {
			node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool {
				return t.Key == v1alpha1.UninitializedTaint
			})
		}
		_, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager})
		return err
	})
	if err != nil {
		return fmt.Errorf("change the taints of Node/%s: %w", name, err)
	}
	return nil
}
