package routes

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// plane is what the tests named TestCluster... share.
var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// A network add-on is there as long as its DaemonSet is. An API server that does not answer takes back nothing.
func TestCluster_AddOns(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(plane.Config)
	addOns := &AddOns{Client: client}
	want := func(what, owner string, known, fails bool) {
		t.Helper()
		got, wasKnown, err := addOns.find(t.Context(), 0)
		if !strings.HasPrefix(got, owner) || owner == "" && got != "" || wasKnown != known || (err != nil) != fails {
			t.Errorf("%s: got %q, known %t, error %v", what, got, wasKnown, err)
		}
	}
	want("none", "", true, false)
	labels := map[string]string{"app": "flannel"}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel-ds", Namespace: "kube-system"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "flannel", Image: "example.com/flannel"}}},
			},
		},
	}
	sets := client.AppsV1().DaemonSets("kube-system")
	if _, err := sets.Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want("installed", "DaemonSet/kube-system/kube-flannel-ds", true, false)
	nobody := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})
	addOns.Client = nobody
	want("no answer", "DaemonSet/kube-system/kube-flannel-ds", true, true)
	addOns.Client = client
	if err := sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("removed", "", true, false)
	addOns.Client = nobody
	want("removed, and no answer", "", true, true)
	addOns = &AddOns{Client: nobody}
	want("never an answer", "", false, true)
}
