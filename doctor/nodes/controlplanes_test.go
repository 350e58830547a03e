package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A Node that was deleted registers without the label of a control plane, and its API server is shown still.
func TestCluster_Unlabelled(t *testing.T) {
	l := newLab(t)
	l.register(newNode("cp1", labelled))
	l.register(newNode("cp2"))
	l.register(newNode("w1"))
	server := func(p *corev1.Pod) {
		p.Name = "kube-apiserver-" + p.Spec.NodeName
		p.Labels = map[string]string{v1alpha1.ComponentLabel: "kube-apiserver"}
	}
	show := func(p corev1.Pod) {
		p.Namespace, p.Status = v1alpha1.Namespace, corev1.PodStatus{}
		p.Spec.Containers = []corev1.Container{{Name: "c", Image: "x"}}
		_, err := l.CoreV1().Pods(v1alpha1.Namespace).Create(t.Context(), &p, metav1.CreateOptions{})
		l.must(err)
	}
	show(newPod(shownOn("cp1"), server))
	show(newPod(shownOn("cp2"), server))
	show(newPod(shownOn("w1")))
	show(newPod(shownOn("w1"), server, func(p *corev1.Pod) { p.Annotations = nil }))
	got, err := Unlabelled(t.Context(), l)
	if diff := cmp.Diff([]string{"cp2"}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	const want = "where they are control planes: kubectl label node cp2 node-role.kubernetes.io/control-plane="
	if got := UnlabelledHint(got); got != want {
		t.Errorf("hint %s", got)
	}
}
