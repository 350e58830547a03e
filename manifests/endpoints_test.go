package manifests

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A field that Kubernetes adds to what kubelets say of pods is the manager's to change as little as the others.
func TestOnlyNotReady_AllFields(t *testing.T) {
	for field := range reflect.TypeFor[corev1.PodStatus]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "conditions" && !slices.Contains(keptOfPods(), name) {
			t.Errorf("status.%s of pods is in no list", name)
		}
	}
}
