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
		{"a hook", "addresspools", hook(`url: "https://failover.example:8443/move", ca: PEM, tokenKey: robot, timeout: 5s, repeatAfter: 1h`), ""},
		{"a hook on the agent's machine", "addresspools", hook(`url: "http://127.0.0.1:9000/"`), ""},
		{"a hook on it by IPv6", "addresspools", hook(`url: "http://[::1]:9000"`), ""},
		{"a hook without CA", "addresspools", hook(`url: "https://failover.example"`), "an https URL needs ca"},
		{"a hook without TLS", "addresspools", hook(`url: "http://failover.example"`), "must be https://HOST/PATH, or http:// with"},
		{"a hook of metadata", "addresspools", hook(`url: "http://169.254.169.254/latest"`), "must be https://HOST/PATH, or http:// with"},
		{"a hook by a loopback name", "addresspools", hook(`url: "http://127.0.0.1.example"`), "must be https://HOST/PATH, or http:// with"},
		{"a hook of a file", "addresspools", hook(`url: "file:///etc/passwd"`), "must be https://HOST/PATH, or http:// with"},
		{"a hook without a host", "addresspools", hook(`url: "https:///path", ca: PEM`), "must be https://HOST/PATH, or http:// with"},
		{"a hook with a password", "addresspools", hook(`url: "https://u:p@failover.example", ca: PEM`), "must have no user"},
		{"a hook with a query", "addresspools", hook(`url: "https://failover.example/?token=1", ca: PEM`), "must have no user"},
		{"a hook with a short timeout", "addresspools", hook(`url: "http://127.0.0.1", timeout: 100ms`), "between 1s and 60s"},
		{"a hook that repeats all the time", "addresspools", hook(`url: "http://127.0.0.1", repeatAfter: 1s`), "between 10s and 24h"},
		{"a hook with a key of another Secret", "addresspools", hook(`url: "http://127.0.0.1", tokenKey: other/key`), "tokenKey"},
		{"a hook at level BGP", "addresspools", `{ranges: [192.0.2.1], level: BGP, hook: {url: "http://127.0.0.1"}}`, "hook needs level: L2"},
		{"a hook at any level", "addresspools", `{ranges: [192.0.2.1], hook: {url: "http://127.0.0.1"}}`, "hook needs level: L2"},
		{"host parts", "addresspools", hostParts(`length: 56, hosts: ["::f000:0-::f000:ff", "::f0:0:0:0:0/72", "::5"]`), ""},
		{"host parts of a subnet, and IPv4", "addresspools", `{ranges: [192.0.2.1], dynamicPrefix: {hosts: ["::1:0/112"]}}`, ""},
		{"neither", "addresspools", `{level: L2}`, "ranges or dynamicPrefix is required"},
		{"no host parts", "addresspools", hostParts(`hosts: []`), "at least 1 items"},
		{"a word as host part", "addresspools", hostParts(`hosts: [lan]`), "must be CIDR, ADDRESS or FIRST-LAST of IPv6"},
		{"a host part of IPv4", "addresspools", hostParts(`hosts: [192.0.2.1]`), "must be CIDR, ADDRESS or FIRST-LAST of IPv6"},
		{"host parts from IPv6 to IPv4", "addresspools", hostParts(`hosts: ["::1-192.0.2.1"]`), "must be CIDR, ADDRESS or FIRST-LAST of IPv6"},
		{"a full address", "addresspools", hostParts(`hosts: ["2001:db8::1"]`), "hosts must be host parts"},
		{"a range beyond host parts", "addresspools", hostParts(`hosts: ["::1-::1:0:0:0:1"]`), "hosts must be host parts"},
		{"a CIDR beyond host parts", "addresspools", hostParts(`hosts: ["::/63"]`), "hosts must be host parts"},
		{"a short prefix", "addresspools", hostParts(`length: 15, hosts: ["::1"]`), "greater than or equal to 16"},
		{"a long prefix", "addresspools", hostParts(`length: 121, hosts: ["::1"]`), "less than or equal to 120"},
		{
			"host parts of an IPAM", "addresspools", `{dynamicPrefix: {hosts: ["::1"]}, ipam: {url: "http://127.0.0.1"}}`,
			"dynamicPrefix and ipam exclude each other",
		},
		{"a peer", "bgppeers", `{address: 192.0.2.1, asn: 64500, localASN: 4200000000, bfd: {enabled: true}}`, ""},
		{"an unnumbered peer", "bgppeers", `{interface: eth1.100, asn: 64500, localASN: 64512, multiHop: 1, bfd: {enabled: true}}`, ""},
		{"an unnumbered peer of any ASN", "bgppeers", `{interface: eth1, localASN: 64512}`, ""},
		{"no ASN", "bgppeers", `{address: 192.0.2.1, localASN: 64512}`, "asn is required with address"},
		{"nowhere", "bgppeers", `{asn: 64500, localASN: 64512}`, "either address or interface"},
		{"twice", "bgppeers", `{address: 192.0.2.1, interface: eth1, asn: 64500, localASN: 64512}`, "either address or interface"},
		{"no interface", "bgppeers", `{interface: "fe80::1%eth1", asn: 64500, localASN: 64512}`, "spec.interface"},
		{"beyond the link", "bgppeers", `{interface: eth1, asn: 1, localASN: 2, multiHop: 2}`, "multiHop must be 1"},
		{"from elsewhere", "bgppeers", `{interface: eth1, asn: 1, localASN: 2, sourceAddress: 192.0.2.9}`, "sourceAddress must not be set"},
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
			for range 600 { // a new definition is served a moment after it is there
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

// hook is a pool at level L2 that has one.
func hook(fields string) string { return "{ranges: [192.0.2.1], level: L2, hook: {" + fields + "}}" }

// hostParts is a pool that has them.
func hostParts(fields string) string { return "{dynamicPrefix: {" + fields + "}}" }

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
