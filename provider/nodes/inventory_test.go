package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

const uuidC = "6e6e4544-0042-3510-8052-b3c04f4b4e32"

// listed has a machine for each of uuidA and uuidC.
const listed = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1}
defaults: {region: ber, zone: ber-a, instanceType: generic}
policy: {unknownNodes: hold}
machines:
- {id: r1, hostname: w1, zone: ber-b, rack: r12, labels: {example.com/disk: nvme}, match: {systemUUID: ` + uuidA + `, macs: ["52:54:00:00:00:01"]}}
- id: r2
  addresses: [{type: InternalIP, address: 198.18.0.22}, {type: ExternalIP, address: 198.18.9.2}]
  match: {systemUUID: ` + uuidC + `, macs: ["52:54:00:00:00:02"]}
  power: {state: "off"}
`

// withInventory returns instances that know the document.
func withInventory(t *testing.T, document string, nodes ...*corev1.Node) (i *instances, warnings *[]string) {
	t.Helper()
	store := inventory.NewStore(inventory.Limits{}, time.Now)
	if document != "" {
		if _, rejection := store.Offer([]byte(document), nil); rejection != nil {
			t.Fatal(rejection)
		}
	}
	m := newMetrics(store, time.Now)
	warnings = &[]string{}
	return &instances{
		nodes:   func(context.Context) (cache.Indexer, error) { return indexed(t, nodes), nil },
		warn:    func(_ *corev1.Node, reason, message string) { *warnings = append(*warnings, reason+": "+message) },
		metrics: m, machines: newMachines(store, m),
	}, warnings
}

// shows is a reachable Node with a UID.
func shows(name, uuid string) *corev1.Node {
	node := reachable(machine(name, uuid, ""))
	node.UID = types.UID(name)
	return node
}

func withNodeIP(node *corev1.Node, ips string) *corev1.Node {
	node.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: ips}
	return node
}

func ready(node *corev1.Node, status corev1.ConditionStatus) *corev1.Node {
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	return node
}

func TestInstanceMetadata_Inventory(t *testing.T) {
	adopting := strings.Replace(listed, "hold", "adopt", 1)
	r1 := cloudprovider.InstanceMetadata{
		ProviderID: "onprem://ber1/r1", Region: "ber", Zone: "ber-b", InstanceType: "generic",
		AdditionalLabels: map[string]string{"example.com/disk": "nvme", "ccmadm.dev/rack": "r12", "ccmadm.dev/machine": "r1"},
		NodeAddresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "198.18.0.2"}, {
			Type:    "Hostname",
			Address: "w1",
		}},
	}
	renamed := r1
	renamed.NodeAddresses = []corev1.NodeAddress{{Type: "InternalIP", Address: "198.18.0.2"}, {
		Type:    "Hostname",
		Address: "new",
	}}
	for _, tt := range []struct {
		name      string
		inventory string
		node      *corev1.Node
		peers     []*corev1.Node
		want      cloudprovider.InstanceMetadata
		wantErr   string
		wantWarn  string
	}{
		{name: "a listed machine", inventory: listed, node: shows("w1", uuidA), want: r1},
		{name: "under another name", inventory: listed, node: shows("new", uuidA), want: renamed},
		{
			name: "addresses of the inventory", inventory: listed, node: withNodeIP(shows("w2", uuidC), "198.18.0.22"),
			want: cloudprovider.InstanceMetadata{
				ProviderID: "onprem://ber1/r2", Region: "ber", Zone: "ber-a", InstanceType: "generic", AdditionalLabels: map[string]string{"ccmadm.dev/machine": "r2"},
				NodeAddresses: []corev1.NodeAddress{
					{
						Type:    "InternalIP",
						Address: "198.18.0.22",
					}, {
						Type:    "ExternalIP",
						Address: "198.18.9.2",
					}, {
						Type:    "Hostname",
						Address: "w2",
					},
				},
			},
		},
		{
			name: "an adopted one", inventory: adopting, node: shows("w9", "7f7f4544-0042-3510-8052-b3c04f4b4e32"),
			want: cloudprovider.InstanceMetadata{
				ProviderID: "onprem://ber1/7f7f4544-0042-3510-8052-b3c04f4b4e32", Region: "ber", Zone: "ber-a", InstanceType: "generic",
				NodeAddresses: []corev1.NodeAddress{{Type: "InternalIP", Address: "198.18.0.2"}, {Type: "Hostname", Address: "w9"}},
			},
		},
		{
			name: "a foreign one", inventory: listed, node: withProviderID(shows("w1", uuidA), "kwok://w1"),
			want: cloudprovider.InstanceMetadata{ProviderID: "kwok://w1", NodeAddresses: r1.NodeAddresses},
		},
		{
			name:      "a renamed machine, once the old Node is silent",
			inventory: strings.Replace(listed, "hostname: w1, ", "", 1),
			node:      shows("new", uuidA),
			peers:     []*corev1.Node{ready(withProviderID(shows("w1", uuidA), "onprem://ber1/r1"), corev1.ConditionUnknown)},
			want:      renamed,
		},
		{
			name: "a clone", inventory: listed, node: shows("new", uuidA),
			peers:   []*corev1.Node{ready(withProviderID(shows("w1", uuidA), "onprem://ber1/r1"), corev1.ConditionFalse)},
			wantErr: "onprem://ber1/r1 is Node/w1, too", wantWarn: "MachineTaken",
		},
		{
			name: "a clone, while the machine reboots", inventory: listed, node: shows("new", uuidA),
			peers:   []*corev1.Node{ready(withProviderID(shows("w1", uuidA), "onprem://ber1/r1"), corev1.ConditionUnknown)},
			wantErr: "onprem://ber1/r1 is Node/w1, too", wantWarn: "MachineTaken",
		},
		{
			name: "two clones at once", inventory: listed, node: shows("new", uuidA), peers: []*corev1.Node{shows("w1", uuidA)},
			wantErr: "is Node/w1, too", wantWarn: "MachineTaken",
		},
		{
			// It has the machine's name by its credentials, and the other one only says what it is.
			name: "a machine that another Node claimed before it joined", inventory: listed, node: joins(shows("w1", uuidA)),
			peers: []*corev1.Node{joins(shows("evil", uuidA))}, want: r1,
		},
		{
			name: "a machine that another Node claims by its provider ID", inventory: listed, node: joins(shows("w1", uuidA)),
			peers: []*corev1.Node{joins(withProviderID(shows("evil", ""), "onprem://ber1/r1"))}, want: r1,
		},
		{
			name: "a machine that an older Node claims later", inventory: strings.Replace(listed, "hostname: w1, ", "", 1),
			node:  withProviderID(shows("w1", uuidA), "onprem://ber1/r1"),
			peers: []*corev1.Node{joins(shows("evil", uuidA))}, want: r1,
		},
		{
			name:      "not listed",
			inventory: listed,
			node:      joins(shows("w9", "")),
			wantErr:   "hostname w9",
			wantWarn:  "UnknownMachine",
		},
		{
			name: "the name of another machine", inventory: listed, node: shows("w1", uuidA[:35]+"3"),
			wantErr: "the Node shows " + uuidA[:35] + "3", wantWarn: "OtherMachine",
		},
		{
			name:      "an address that is not listed",
			inventory: listed,
			node:      withNodeIP(shows("w2", uuidC), "198.18.0.22,fd00::2"),
			wantErr:   "--node-ip=fd00::2 is not among those of machine r2", wantWarn: "AddressNotListed",
		},
		{name: "no inventory yet", node: shows("w1", uuidA), wantErr: "it has not been read yet", wantWarn: "NoInventory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i, warnings := withInventory(t, tt.inventory, append(tt.peers, tt.node)...)
			got, err := i.InstanceMetadata(t.Context(), tt.node)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) || errors.Is(err, cloudprovider.InstanceNotFound) {
					t.Fatalf("got %+v and error %v, want an error with %q", got, err, tt.wantErr)
				}
				if len(*warnings) != 1 || !strings.HasPrefix((*warnings)[0], tt.wantWarn+": ") {
					t.Errorf("got warnings %q, want %s", *warnings, tt.wantWarn)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.NodeAddresses[len(tt.want.NodeAddresses)-1].Address == "new" {
				tt.node.Name = "new"
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(*warnings) > 0 {
				t.Errorf("got warnings %q", *warnings)
			}
		})
	}
}

// Two workers may ask for two clones at the same time, before either shows up in
// the cache with its identity.
func TestInstanceMetadata_OneMachineOneNode(t *testing.T) {
	one, two := shows("a", ""), shows("b", "")
	one.Annotations = map[string]string{v1alpha1.MACsAnnotation: "52:54:00:00:00:02"}
	two.Annotations = one.Annotations
	one.Status.Addresses, two.Status.Addresses = nil, nil
	i, warnings := withInventory(t, listed, one, two)
	if _, err := i.InstanceMetadata(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	if _, err := i.InstanceMetadata(t.Context(), one); err != nil {
		t.Errorf("asked again: %v", err)
	}
	if got, err := i.InstanceMetadata(t.Context(), two); err == nil || !strings.Contains((*warnings)[0], "MachineTaken") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A Node that was taken for a machine by a wrong line of the inventory does not keep the ID from the right one once the line is
// corrected, be it that it is another machine then, or none, or waits with another ID.
func TestInstanceMetadata_CorrectedInventory(t *testing.T) {
	const document = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1}\npolicy: {unknownNodes: hold}\nmachines:\n"
	const both = "- {id: r1, match: {hostnames: [a, b]}}\n- {id: r2, hostname: c}\n"
	const wrong = document + "- {id: r1, hostname: b}\n- {id: r2, hostname: c}\n"
	for _, tt := range []struct {
		name, next, has string
		wantErr         string
	}{
		{name: "it is another machine", next: "- {id: r1, hostname: a}\n- {id: r2, hostname: b}\n"},
		{name: "it is not listed", next: "- {id: r1, hostname: a}\n- {id: r2, hostname: c}\n"},
		{name: "it has become another machine", next: both, has: "onprem://ber1/r2"},
		{name: "both fit", next: both, wantErr: "is Node/b, too"},
		{name: "it has the ID", next: both, has: "onprem://ber1/r1", wantErr: "is Node/b, too"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			right, other := joins(shows("a", "")), joins(shows("b", ""))
			i, _ := withInventory(t, wrong, right, other)
			if got, err := i.InstanceMetadata(t.Context(), other); err != nil || got.ProviderID != "onprem://ber1/r1" {
				t.Fatalf("got %+v, %v", got, err)
			}
			if _, rejection := i.machines.store.Offer([]byte(document+tt.next), nil); rejection != nil {
				t.Fatal(rejection)
			}
			other.Spec.ProviderID = tt.has
			got, err := i.InstanceMetadata(t.Context(), right)
			switch {
			case tt.wantErr != "":
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got %+v, %v, want an error with %q", got, err, tt.wantErr)
				}
			case err != nil || got.ProviderID != "onprem://ber1/r1":
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestEvents_Due(t *testing.T) {
	now := time.Now()
	e := newEvents(nil, func() time.Time { return now })
	for _, step := range []struct {
		after time.Duration
		words string
		want  bool
	}{
		{0, "a", true},
		{time.Second, "a", false},
		{time.Second, "b", true},
		{time.Second, "a", false}, // they take turns
		{time.Second, "b", false},
		{repeatAfter - 5*time.Second, "a", false},
		{time.Second, "a", true},
		{time.Second, "b", false},
		{time.Second, "b", true},
	} {
		now = now.Add(step.after)
		if got := e.due("uid", step.words); got != step.want {
			t.Errorf("%q after %s: got %v", step.words, step.after, got)
		}
	}
	now = now.Add(3 * repeatAfter)
	if e.due("another", "a"); len(e.last) != 1 {
		t.Errorf("%d Nodes are remembered, want the latest", len(e.last))
	}
}

func TestDifference(t *testing.T) {
	i, _ := withInventory(t, strings.Replace(listed, "rack: r12, labels: {", `taints: [{key: gpu, effect: NoSchedule}], labels: {example.com/new: first, `, 1))
	m := i.machines.store.Status().Inventory.ByID("r1")
	node := shows("w1", uuidA)
	node.Labels = map[string]string{
		corev1.LabelTopologyZone: "old", "ccmadm.dev/rack": "old",
		"example.com/disk": "theirs", "example.com/gone": "ours", "example.com/kept": "theirs",
	}
	node.Annotations = map[string]string{v1alpha1.FollowedLabelsAnnotation: "example.com/gone"}
	node.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider}}
	text := func(s string) *string { return &s }
	want := map[string]*string{
		"ccmadm.dev/machine": text("r1"), "ccmadm.dev/rack": nil, "example.com/gone": nil,
		"example.com/new": text("first"),
	}
	check := func(p *nodePatch) {
		t.Helper()
		if diff := cmp.Diff(want, p.Metadata.Labels); diff != "" {
			t.Errorf("labels, -want +got:\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{v1alpha1.FollowedLabelsAnnotation: "example.com/new"},
			p.Metadata.Annotations); diff != "" {
			t.Errorf("annotations, -want +got:\n%s", diff)
		}
		if len(*p.Spec.Taints) != len(node.Spec.Taints)+1 || p.Metadata.Version != node.ResourceVersion {
			t.Errorf("got taints %v", p.Spec.Taints)
		}
	}
	p, _ := difference(node, m, nil)
	check(p) // upstream writes where the machine stands
	node.Spec.Taints = nil
	for key, value := range placeLabels(m) {
		want[key] = &value
	}
	p, _ = difference(node, m, nil)
	check(p)

	for key, value := range p.Metadata.Labels {
		if delete(node.Labels, key); value != nil {
			node.Labels[key] = *value
		}
	}
	node.Annotations = p.Metadata.Annotations
	node.Spec.Taints = *p.Spec.Taints
	if again, _ := difference(node, m, nil); again != nil {
		t.Errorf("twice is not once: %+v", again)
	}
}

// The label of a machine is its id, or fits, and is another for each id.
func TestMachineLabel(t *testing.T) {
	long := "node-" + strings.Repeat("a", 80)
	one, two := machineLabel(long+"1"), machineLabel(long+"2")
	if machineLabel("r1") != "r1" || one == two || len(validation.IsValidLabelValue(one)) > 0 {
		t.Errorf("got %s, %s and %s", machineLabel("r1"), one, two)
	}
}
