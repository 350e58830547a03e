package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Nodes that were all listed are not listed again to find the control planes among them.
func TestObserve_ListsNodesOnce(t *testing.T) {
	pod := newPod(shownOn("cp1"), func(p *corev1.Pod) {
		p.Namespace, p.Labels = v1alpha1.Namespace, map[string]string{v1alpha1.ComponentLabel: v1alpha1.Component}
	})
	for _, tt := range []struct {
		name  string
		nodes []string
		want  int
	}{
		{name: "all", want: 1},
		{name: "one by its name: the control planes are asked for", nodes: []string{"w1"}, want: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(newNode("cp1", labelled), newNode("w1", tainted, unresolved), &pod)
			report, err := Observe(t.Context(), client, "", tt.nodes)
			if err != nil || len(report.Nodes) == 0 {
				t.Fatalf("%v, %v", report, err)
			}
			lists := 0
			for _, action := range client.Actions() {
				if _, is := action.(k8stesting.ListAction); is && action.GetResource().Resource == "nodes" {
					lists++
				}
			}
			if lists != tt.want {
				t.Errorf("Nodes were listed %d times, want %d", lists, tt.want)
			}
		})
	}
}
