package nodes

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A pod that leads without the Lease says nothing of one that asks for it: any worker's kubelet may show one.
func TestLeadership_Elect(t *testing.T) {
	alone := func(p *corev1.Pod) {
		p.Name = "alone"
		p.Spec.Containers = []corev1.Container{{Name: v1alpha1.Component, Args: []string{"--leader-elect=false"}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(time.Now().Add(-time.Hour))
	}
	for _, tt := range []struct {
		name string
		pods []corev1.Pod
		want leadership
	}{
		{"by itself", []corev1.Pod{newPod(alone)}, leadership{unelected: true, alone: "alone"}},
		{"beside one that is elected", []corev1.Pod{newPod(alone), newPod()}, leadership{}},
		{"none", nil, leadership{}},
	} {
		l := leadership{}
		if l.elect(tt.pods, time.Now()); l != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, l, tt.want)
		}
	}
}
