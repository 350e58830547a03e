package nodes

import (
	corev1 "k8s.io/api/core/v1"
)

// Strays returns what tells static pods that workers show from those of control planes. A kubelet may show any pod as
// its own, under any labels; who is a control plane it may not say. Where no Node has kubeadm's label that is not known, and
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
