package nodes

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Strays returns what tells static pods that workers show from those of control planes. A kubelet may show any pod as
// its own, under any labels; who is a control plane it may not say. Where no Node has kubeadm's label nobody knows, and
// there are none.
func Strays(nodes []corev1.Node) func(*corev1.Pod) bool {
	controlPlanes := map[string]bool{}
	for i := range nodes {
		if IsControlPlane(&nodes[i]) {
			controlPlanes[nodes[i].Name] = true
		}
	}
	return func(p *corev1.Pod) bool {
		return IsMirror(p) && len(controlPlanes) > 0 && !controlPlanes[p.Spec.NodeName]
	}
}

// IsMirror tells whether a pod shows a static one of its machine. A kubelet may show any as its own, under any labels: no
// workload has such.
func IsMirror(p *corev1.Pod) bool {
	_, static := p.Annotations[corev1.MirrorPodAnnotationKey]
	return static
}

// withoutStrays lists the control planes where pods are static, and not all Nodes are known.
func (f *Facts) withoutStrays(ctx context.Context, c kubernetes.Interface, pods []corev1.Pod) ([]corev1.Pod, error) {
	if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return IsMirror(&p) }) {
		return pods, nil
	}
	nodes := f.Nodes
	if !f.every {
		list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ControlPlaneLabel})
		if err != nil {
			return nil, fmt.Errorf("list the control planes: %w", err)
		}
		nodes = list.Items
	}
	stray := Strays(nodes)
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return stray(&p) }), nil
}
