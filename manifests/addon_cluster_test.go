package manifests_test

import (
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// With three control planes somebody scales the Deployment. The next run of ccmadm leaves that as it is.
func TestCluster_DeploymentKeepsItsScale(t *testing.T) {
	p, err := templates.Load("huawei")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifests.Addon(p, manifeststest.Values(p, templates.Deployment, "v1.36.0", true))
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.NewCluster(cluster.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.Apply(t.Context(), "addon", objects); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	name, deployments := objects[0].GetName(), client.AppsV1().Deployments("kube-system")
	three := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "kube-system"},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 3},
	}
	if _, err := deployments.UpdateScale(t.Context(), name, three, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	changes, err := applier.Apply(t.Context(), "addon", objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if c.Action != "unchanged" {
			t.Errorf("second run: %s", c)
		}
	}
	got, err := deployments.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *got.Spec.Replicas != 3 {
		t.Errorf("got %d replicas after the second run, want the 3 of the user", *got.Spec.Replicas)
	}
	if _, err := applier.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
