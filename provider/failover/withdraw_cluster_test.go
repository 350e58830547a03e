package failover

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// plane is what the tests named TestCluster... share.
var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// A real API server changes one condition of the pod that was meant, and refuses another one of its name.
func TestCluster_MarkNotReady(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(plane.Config)
	pods := client.CoreV1().Pods("default")
	p, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "serves"},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
	}
	if _, err := pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := New(Settings{Client: client, Now: time.Now})
	name := types.NamespacedName{Namespace: "default", Name: "serves"}
	if err := w.markNotReady(t.Context(), pod{name, "another"}); !apierrors.IsInvalid(err) {
		t.Errorf("another pod of that name: %v, want that it is refused", err)
	}
	if err := w.markNotReady(t.Context(), pod{name, p.UID}); err != nil {
		t.Fatal(err)
	}
	now, err := pods.Get(t.Context(), "serves", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range now.Status.Conditions {
		got[c.Type] = c.Status
	}
	if len(got) != 2 || got[corev1.PodReady] != corev1.ConditionFalse ||
		got[corev1.ContainersReady] != corev1.ConditionTrue {
		t.Errorf("conditions are %v, want that only Ready is False", got)
	}
}
