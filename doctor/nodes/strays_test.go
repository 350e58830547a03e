package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func labelled(n *corev1.Node) { n.Labels = map[string]string{v1alpha1.ControlPlaneLabel: ""} }

// shownOn is a static pod of a machine.
func shownOn(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Name, p.Spec.NodeName = v1alpha1.Component+"-"+node, node
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
}

func TestStrays(t *testing.T) {
	made := []corev1.Node{*newNode("cp1", labelled), *newNode("w1")}
	for _, tt := range []struct {
		name  string
		nodes []corev1.Node
		pod   corev1.Pod
		want  bool
	}{
		{name: "a control plane's", nodes: made, pod: newPod(shownOn("cp1"))},
		{name: "a worker's", nodes: made, pod: newPod(shownOn("w1")), want: true},
		{name: "of no Node that there is", nodes: made, pod: newPod(shownOn("w9")), want: true},
		{name: "a workload's on a worker", nodes: made, pod: newPod(func(p *corev1.Pod) { p.Spec.NodeName = "w1" })},
		{name: "control planes have no label", nodes: made[1:], pod: newPod(shownOn("w1"))},
		{name: "Nodes were not seen", pod: newPod(shownOn("w1"))},
	} {
		if got := Strays(tt.nodes)(&tt.pod); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// A pod that a worker shows under the manager's labels, and that runs, does not hide why the manager does not.
func TestCluster_Observe_AWorkersPodIsNoManagers(t *testing.T) {
	l := newLab(t)
	l.register(newNode("cp1", labelled))
	l.register(newNode("w1", tainted, unresolved))
	l.run(newPod(shownOn("cp1"), waiting("ImagePullBackOff", "not found")))
	l.run(newPod(shownOn("w1")))
	report, err := Observe(t.Context(), l, "", []string{"w1"})
	if err != nil {
		t.Fatal(err)
	}
	if c := report.Nodes[0].Cause; c == nil || c.ID != finding.ImagePull {
		t.Errorf("got cause %+v, want the image of the control plane's pod", c)
	}
}
