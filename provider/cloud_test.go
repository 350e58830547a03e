package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Upstream starts a controller for every role that says ok.
func TestCloud_ServesNodes(t *testing.T) {
	cloud, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]bool{}
	_, roles["Instances"] = cloud.Instances()
	_, roles["InstancesV2"] = cloud.InstancesV2()
	_, roles["Zones"] = cloud.Zones()
	_, roles["Clusters"] = cloud.Clusters()
	_, roles["LoadBalancer"] = cloud.LoadBalancer()
	_, roles["Routes"] = cloud.Routes()
	want := map[string]bool{
		"Instances": false, "InstancesV2": true, "Zones": false, "Clusters": false, "LoadBalancer": true, "Routes": false,
	}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if cloud.ProviderName() != "onprem" || !cloud.HasClusterID() {
		t.Errorf("got name %q and cluster id %v", cloud.ProviderName(), cloud.HasClusterID())
	}
}

// Whoever asks before upstream has called Initialize and SetInformers gets an error, and no machine is said to be gone.
func TestCloud_AsksForInformers(t *testing.T) {
	for _, config := range []string{"", "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\ninventory: {file: " +
		"unused}\n"} {
		cloud, err := New(strings.NewReader(config))
		if err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
		i, _ := cloud.InstancesV2()
		_, metadataErr := i.InstanceMetadata(t.Context(), node)
		exists, existsErr := i.InstanceExists(t.Context(), node)
		off, offErr := i.InstanceShutdown(t.Context(), node)
		if !exists || off {
			t.Errorf("exists: %v, off: %v", exists, off)
		}
		for _, err := range []error{metadataErr, existsErr, offErr} {
			if err == nil || !strings.Contains(err.Error(), "no client, or no informers") {
				t.Errorf("got error %v", err)
			}
		}
	}
}
