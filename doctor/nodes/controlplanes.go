package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// apiServer is the static pod that every control plane of kubeadm has.
const apiServer = "kube-apiserver"

// IsControlPlane goes by kubeadm's label, which no kubelet may set.
func IsControlPlane(n *corev1.Node) bool {
	return metav1.HasLabel(n.ObjectMeta, v1alpha1.ControlPlaneLabel)
}

// Unlabelled returns the Nodes that show an API server as a static pod and have no label of a control plane: a Node
// that was deleted registers without it. A kubelet may show any pod: it is a reason to ask an administrator, no proof.
func Unlabelled(ctx context.Context, c kubernetes.Interface) ([]string, error) {
	pods, err := c.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.ComponentLabel + "=" + apiServer,
	})
	if err != nil {
		return nil, fmt.Errorf("list the pods of API servers: %w", err)
	}
	var shown []string
	for i := range pods.Items {
		if p := &pods.Items[i]; IsMirror(p) && p.Name == apiServer+"-"+p.Spec.NodeName {
			shown = append(shown, p.Spec.NodeName)
		}
	}
	if len(shown) == 0 {
		return nil, nil
	}
	marked, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ControlPlaneLabel})
	if err != nil {
		return nil, fmt.Errorf("list the control planes: %w", err)
	}
	shown = slices.DeleteFunc(shown, func(name string) bool {
		return slices.ContainsFunc(marked.Items, func(n corev1.Node) bool { return n.Name == name })
	})
	slices.Sort(shown)
	return slices.Compact(shown), nil
}

// UnlabelledHint says what makes Nodes control planes again.
func UnlabelledHint(names []string) string {
	return "where they are control planes: kubectl label node " + strings.Join(names, " ") + " " +
		v1alpha1.ControlPlaneLabel + "="
}
