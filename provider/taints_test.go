package provider

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cloud-provider/controllers/node"
	controllersmetrics "k8s.io/component-base/metrics/prometheus/controllers"
	clientbuilder "k8s.io/controller-manager/pkg/clientbuilder"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// At no time may pods come that the taints of a machine would keep away: they are
// there before upstream takes away that of an uninitialized Node.
func TestCluster_TaintsComeFirst(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machines.yaml")
	document := strings.Replace(listed, "rack: r12,", "rack: r12, taints: [{key: example.com/gpu, effect: "+
		"NoSchedule}],", 1)
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(unlimited(plane.Config))
	nodes := client.CoreV1().Nodes()
	runNodeController(t, client, file)

	object := registered("w1")
	object.Spec.Taints = append(object.Spec.Taints, corev1.Taint{
		Key:    "example.com/theirs",
		Effect: corev1.TaintEffectNoSchedule,
	})
	created, err := nodes.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := nodes.Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: created.ResourceVersion,
		FieldSelector:   "metadata.name=w1",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Stop()
	timeout := time.After(time.Minute)
	for done := false; !done; {
		select {
		case change := <-changes.ResultChan():
			now := change.Object.(*corev1.Node)
			if done = !slices.ContainsFunc(now.Spec.Taints,
				func(taint corev1.Taint) bool { return taint.Key == v1alpha1.UninitializedTaint }); !done {
				continue
			}
			for _, key := range []string{"example.com/gpu", "example.com/theirs"} {
				if !slices.ContainsFunc(now.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key }) {
					t.Errorf("a pod may come: %s is not among taints %v", key, now.Spec.Taints)
				}
			}
			if now.Spec.ProviderID != "onprem://ber1/r1" || now.Labels[v1alpha1.MachineLabel] != "r1" ||
				now.Labels["example.com/disk"] != "nvme" ||
				now.Annotations[v1alpha1.FollowedLabelsAnnotation] != "example.com/disk" {
				t.Errorf("got provider ID %s, labels %v, annotations %v", now.Spec.ProviderID, now.Labels, now.Annotations)
			}
		case <-timeout:
			t.Fatal("the Node is not initialized")
		}
	}
}

// runNodeController runs upstream's with an inventory, until the test ends.
func runNodeController(t *testing.T, client *kubernetes.Clientset, file string) {
	t.Helper()
	cloud, err := New(strings.NewReader("apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\ninventory: {file: " +
		"" + file + "}\n"))
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	cloud.Initialize(clientbuilder.SimpleControllerClientBuilder{ClientConfig: plane.Config}, stop)
	factory := informers.NewSharedInformerFactory(client, 0)
	cloud.(*Cloud).SetInformers(factory)
	controller, err := node.NewCloudNodeController(factory.Core().V1().Nodes(), client, cloud, time.Minute, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(stop)
	go func() {
		defer close(ended)
		controller.Run(stop, controllersmetrics.NewControllerManagerMetrics("test"))
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
		factory.Shutdown()
		removeNode(t, client, "w1")
	})
}

func removeNode(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	if err := client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), name,
		metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
