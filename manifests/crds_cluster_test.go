package manifests_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
)

// What is wrong with a pool or a peer is refused by the API server already, where its author reads it.
func TestCluster_CRDs(t *testing.T) {
	objects, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.NewCluster(cluster.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := applier.Apply(t.Context(), "crds", objects); err != nil {
			t.Fatal(err)
		}
	}
	client, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, kind, spec, want string }{
		{"all forms", "addresspools", `{ranges: [192.0.2.0/28, 192.0.2.50-192.0.2.99, 192.0.2.200, "2001:db8::/112"]}`, ""},
		{"no range", "addresspools", `{ranges: []}`, "at least 1 items"},
		{"a word", "addresspools", `{ranges: [lan]}`, "must be CIDR, ADDRESS or FIRST-LAST"},
		{"two families", "addresspools", `{ranges: ["192.0.2.1-2001:db8::1"]}`, "of one family"},
		{"a level", "addresspools", `{ranges: [192.0.2.1], level: NodeIP}`, `"Auto", "L2", "BGP"`},
		{"a community", "addresspools", `{ranges: [192.0.2.1], bgp: {communities: [no-export]}}`, "communities"},
		{"a community's bits", "addresspools", `{ranges: [192.0.2.1], bgp: {communities: ["70000:1"]}}`, "16 bits each"},
		{"a peer", "bgppeers", `{address: 192.0.2.1, asn: 64500, localASN: 4200000000, bfd: {enabled: true}}`, ""},
		{"a name", "bgppeers", `{address: router, asn: 64500, localASN: 64512}`, "must be an IP address"},
		{"no such ASN", "bgppeers", `{address: 192.0.2.1, asn: 0, localASN: 64512}`, "greater than or equal to 1"},
		{"a short hold time", "bgppeers", `{address: 192.0.2.1, asn: 1, localASN: 2, holdTime: 1s}`, "must be between 3s and 65535s"},
		{"a hold time of more than 16 bits", "bgppeers", `{address: 192.0.2.1, asn: 1, localASN: 2, holdTime: 65536s}`, "65535s"},
		{
			"a long keepalive", "bgppeers", `{address: 192.0.2.1, asn: 1, localASN: 2, holdTime: 6s, keepalive: 3s}`,
			"a third of holdTime",
		},
		{
			"a keepalive before now", "bgppeers", `{address: 192.0.2.1, asn: 1, localASN: 2, keepalive: -1s}`,
			"must be 1s at least",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kind := map[string]string{"addresspools": v1alpha1.AddressPoolKind, "bgppeers": v1alpha1.BGPPeerKind}[tt.kind]
			object := &unstructured.Unstructured{}
			text := "apiVersion: ccmadm.dev/v1alpha1\nkind: " + kind + "\nmetadata: {generateName: t-}\nspec: " + tt.spec
			if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
				t.Fatal(err)
			}
			resource := schema.GroupVersionResource{Group: "ccmadm.dev", Version: "v1alpha1", Resource: tt.kind}
			var err error
			for range 50 { // a new definition is served a moment after it is there
				_, err = client.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{"All"}})
				if err == nil || !strings.Contains(err.Error(), "could not find the requested resource") {
					break
				}
				time.Sleep(100 * time.Millisecond)
			}
			if got := message(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
