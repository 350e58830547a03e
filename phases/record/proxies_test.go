package record

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestProxies_BehindASidecar: a webhook or a patch puts a container before the manager's, with other proxies or none.
func TestProxies_BehindASidecar(t *testing.T) {
	manager := corev1.Container{
		Name: v1alpha1.Component,
		Env:  []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "A", Value: "1"}},
	}
	for name, first := range map[string]corev1.Container{
		"without variables": {Name: "sidecar"},
		"with its own":      {Name: "sidecar", Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://other:1"}, {Name: "B", Value: "2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{first, manager}}}
			if got := proxiesOf(metav1.ObjectMeta{}, pod.Spec, nil)("HTTPS_PROXY"); got != "http://proxy:3128" {
				t.Errorf("HTTPS_PROXY = %q, want the manager's", got)
			}
			if alone := (&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{manager}}}); !SameEnv(pod, alone) {
				t.Errorf("SameEnv() = false for the same manager: %v and %v", clusterEnv(pod), clusterEnv(alone))
			}
		})
	}
}
