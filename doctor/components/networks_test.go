package components

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// TestJudge_PodNetworks is about CNI plugins in namespaces of their own.
func TestJudge_PodNetworks(t *testing.T) {
	flannel := func(w *world, ready int32, unready ...*corev1.Pod) {
		n := nodes.PodNetwork{Namespace: "kube-flannel", Name: "kube-flannel-ds", Wanted: 5, Ready: ready}
		for _, p := range unready {
			p.Namespace = n.Namespace
			n.Unready = append(n.Unready, *p)
		}
		w.Networks = append(w.Networks, n)
	}
	crashed := func(age time.Duration) *corev1.Pod {
		p := made(newPod("kube-flannel-w1", "w1"), daemonSet, "kube-flannel-ds")
		p.CreationTimestamp = ago(age)
		p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, ago(age)
		return p
	}
	for _, tt := range []row{
		{"all are ready", func(w *world) { flannel(w, 5) }, ""},
		{"one of five fails", func(w *world) { flannel(w, 4, crashed(time.Hour)) }, "Q2 DaemonSet/kube-flannel/kube-flannel-ds"},
		{"one of a rollout starts", func(w *world) { flannel(w, 4, crashed(8*time.Second)) }, ""},
		{"one is not made", func(w *world) { flannel(w, 4) }, "Q1 DaemonSet/kube-flannel/kube-flannel-ds"},
		{"a Node is new", func(w *world) {
			flannel(w, 4)
			w.Nodes[3].CreationTimestamp = ago(20 * time.Second)
		}, ""},
		{"a Node has stopped reporting", func(w *world) {
			flannel(w, 4, crashed(time.Hour))
			w.Skip = func(node string) bool { return node == "w1" }
		}, ""},
		{"one is not made, or not ready: pods could not be listed", func(w *world) {
			flannel(w, 4)
			w.Listed = func(string) bool { return false }
		}, ""},
		{"its controller has not seen it as it is", func(w *world) {
			flannel(w, 4)
			w.Networks[0].Changing = true
		}, ""},
		{"in kube-system, where it is a workload as others", func(w *world) {
			flannel(w, 4)
			w.Networks[0].Namespace = "kube-system"
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			if got := w.judge(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
