package diagnosis

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/templates"
)

// TestCluster_Gather_EventsOfManagers: why a manager in a namespace of its own has no pod, only Events of that namespace say.
func TestCluster_Gather_EventsOfManagers(t *testing.T) {
	l := newLab(t)
	const namespace = "own-ccm"
	_, err := l.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	l.must(err)
	var name string
	l.write(newSnapshot(templates.Deployment, 1, tainted, func(s *Snapshot) {
		s.Pods, s.Leases = nil, nil
		s.Deployments[0].Namespace, name = namespace, s.Deployments[0].Name
	}))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		l.must(l.AppsV1().Deployments(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
		l.must(l.CoreV1().Events(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		l.must(l.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	})
	refused := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "refused"},
		InvolvedObject: corev1.ObjectReference{Kind: "ReplicaSet", Namespace: namespace, Name: name + "-5d9f"},
		Type:           corev1.EventTypeWarning, Reason: "FailedCreate", LastTimestamp: metav1.Now(),
		Message: `pods "x" is forbidden: violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`,
	}
	_, err = l.CoreV1().Events(namespace).Create(t.Context(), refused, metav1.CreateOptions{})
	l.must(err)
	if d := Diagnose(l.look(l)); len(d.Causes) == 0 || d.Causes[0].ID != "B6" {
		t.Errorf("got %s, want B6 first", words(d))
	}
}
