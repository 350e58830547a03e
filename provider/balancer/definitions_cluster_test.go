package balancer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// forgetDefinitions waits until the API server has none of ours. Now and then it forgets for minutes one that is being
// deleted: a change of it is a reminder.
func (c *cluster) forgetDefinitions() {
	c.Helper()
	group := schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	definitions := dynamic.NewForConfigOrDie(plane.Config).Resource(group.WithResource("customresourcedefinitions"))
	for began := time.Now(); ; time.Sleep(time.Second) {
		list, err := definitions.List(c.Context(), metav1.ListOptions{})
		if err != nil {
			c.Fatal(err)
		}
		left := slices.DeleteFunc(list.Items, func(d unstructured.Unstructured) bool {
			return !strings.HasSuffix(d.GetName(), "."+v1alpha1.GroupName)
		})
		if len(left) == 0 {
			return
		}
		if time.Since(began) > time.Minute {
			c.Fatalf("the API server still has %d of them, %s first", len(left), left[0].GetName())
		}
		for _, d := range left {
			touch := fmt.Sprintf(`{"metadata":{"annotations":{"touched":%q}}}`, time.Since(began))
			_, err := definitions.Patch(c.Context(), d.GetName(), types.MergePatchType, []byte(touch), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				c.Fatal(err)
			}
		}
	}
}

// Without the CRDs there are no pools: Services have addresses of Nodes. When the CRDs come, pools do.
func TestCluster_NoCRDs(t *testing.T) {
	c := newCluster(t)
	c.end()
	options := envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}, MaxTime: time.Minute}
	if err := envtest.UninstallCRDs(plane.Config, options); err != nil {
		t.Fatal(err)
	}
	c.forgetDefinitions()
	c.lead()
	c.create("web")
	c.within(10*time.Second, "web", hasAddress("198.18.0.1"))
	c.create("wants", onPort(81), annotated(v1alpha1.PoolAnnotation, "lan"))
	c.within(5*time.Second, "wants", reasonIs("PoolNotFound"))

	if _, err := envtest.InstallCRDs(plane.Config, options); err != nil {
		t.Fatal(err)
	}
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	_, err := c.objects.NodeAgents.Create(t.Context(), agent, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.addPool(addressPool("lan", "192.0.2.50-192.0.2.60"))
	began := time.Now()
	c.within(90*time.Second, "wants", func(s *corev1.Service) bool {
		return reasonIs(allocator.AnnouncedReason)(s) && strings.HasPrefix(address(s), "192.0.2.")
	})
	t.Logf("the pool that could not be there before gives addresses after %s", time.Since(began).Round(time.Millisecond))
	claims, err := c.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{LabelSelector: ourClaims})
	if err != nil || len(claims.Items) == 0 {
		t.Errorf("no claim: %v", err)
	}
}
