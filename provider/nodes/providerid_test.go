package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	uuidA    = "4c4c4544-0042-3510-8052-b3c04f4b4e32"
	machineA = "1d1d1d1d2e2e2e2e3f3f3f3f4a4a4a4a"
	machineB = "7b0c9cf8a4b14c66b31dc2eeb6b9f2a1"
)

// machine is a Node as a kubelet registers it.
func machine(name, systemUUID, machineID string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: systemUUID, MachineID: machineID}},
	}
}

func withProviderID(node *corev1.Node, id string) *corev1.Node {
	node.Spec.ProviderID = id
	return node
}

// indexed is the cache of an informer that has seen the Nodes.
func indexed(t *testing.T, nodes []*corev1.Node) cache.Indexer {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
	for _, node := range nodes {
		if err := indexer.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	return indexer
}

func TestNewProviderID(t *testing.T) {
	for _, tt := range []struct {
		name  string
		node  *corev1.Node
		peers []*corev1.Node
		want  string
	}{
		{
			name: "system UUID first",
			node: machine("a", uuidA, machineA),
			want: "onprem://ber1/" + uuidA,
		},
		{
			name: "upper case and blanks around it",
			node: machine("a", " 4C4C4544-0042-3510-8052-B3C04F4B4E32\n", machineA),
			want: "onprem://ber1/" + uuidA,
		},
		{
			name: "no dashes",
			node: machine("a", "4c4c4544004235108052b3c04f4b4e32", machineA),
			want: "onprem://ber1/" + uuidA,
		},
		{
			name:  "the Node itself is no peer",
			node:  machine("a", uuidA, machineA),
			peers: []*corev1.Node{machine("a", uuidA, machineA)},
			want:  "onprem://ber1/" + uuidA,
		},
		{
			name:  "other machines around",
			node:  machine("a", uuidA, machineA),
			peers: []*corev1.Node{machine("b", "5d5d4544-0042-3510-8052-b3c04f4b4e32", machineB)},
			want:  "onprem://ber1/" + uuidA,
		},
		{
			name: "machine-id when the UUID is empty",
			node: machine("a", "", machineA),
			want: "onprem://ber1/" + machineA,
		},
		{
			name: "machine-id when the UUID is all zeros",
			node: machine("a", "00000000-0000-0000-0000-000000000000", machineA),
			want: "onprem://ber1/" + machineA,
		},
		{
			name: "machine-id when the UUID is all ones",
			node: machine("a", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", machineA),
			want: "onprem://ber1/" + machineA,
		},
		{
			name: "machine-id when the UUID repeats one byte",
			node: machine("a", "FEFEFEFE-FEFE-FEFE-FEFE-FEFEFEFEFEFE", machineA),
			want: "onprem://ber1/" + machineA,
		},
		{
			name: "machine-id when most of the UUID is not set",
			node: machine("a", "93309712-FFFF-FFFF-FFFF-FFFFFFFFFFFF", machineA),
			want: "onprem://ber1/" + machineA,
		},
		{
			name: "machine-id when the UUID is a board's placeholder",
			node: machine("a", "03000200-0400-0500-0006-000700080009", machineA),
			want: "onprem://ber1/" + machineA,
		},
		{
			name: "machine-id when the UUID is words",
			node: machine("a", "Not Settable", machineA),
			want: "onprem://ber1/" + machineA,
		},
		{
			name: "machine-id when the UUID has 32 characters that are not hexadecimal",
			node: machine("a", "To-be-filled-by-O.E.M.-with-42-chars", machineA),
			want: "onprem://ber1/" + machineA,
		},
		{
			name:  "machine-id when a peer shows the same UUID in other letters",
			node:  machine("a", uuidA, machineA),
			peers: []*corev1.Node{machine("b", "4C4C4544-0042-3510-8052-B3C04F4B4E32", machineB)},
			want:  "onprem://ber1/" + machineA,
		},
		{
			name:  "machine-id when a peer has taken the UUID and lost it with its board",
			node:  machine("a", uuidA, machineA),
			peers: []*corev1.Node{withProviderID(machine("b", "", machineB), "onprem://ber1/"+uuidA)},
			want:  "onprem://ber1/" + machineA,
		},
		{
			name:  "a UUID taken at another site is free here",
			node:  machine("a", uuidA, machineA),
			peers: []*corev1.Node{withProviderID(machine("b", "", machineB), "onprem://ham1/"+uuidA)},
			want:  "onprem://ber1/" + uuidA,
		},
		{
			name:  "the name when a clone has both",
			node:  machine("a", uuidA, machineA),
			peers: []*corev1.Node{machine("b", uuidA, machineA)},
			want:  "onprem://ber1/node-a",
		},
		{
			name:  "the name when one peer has the UUID and another the machine-id",
			node:  machine("a", uuidA, machineA),
			peers: []*corev1.Node{machine("b", uuidA, machineB), machine("c", "", machineA)},
			want:  "onprem://ber1/node-a",
		},
		{
			name: "the name when the machine has not booted for the first time",
			node: machine("a.example.org", "", "uninitialized"),
			want: "onprem://ber1/node-a.example.org",
		},
		{
			name: "UUID and machine-id of one value stay apart",
			node: machine("a", "", "4c4c4544004235108052b3c04f4b4e32"),
			want: "onprem://ber1/4c4c4544004235108052b3c04f4b4e32",
		},
		{
			name: "a name that looks like a UUID does not make one",
			node: machine(uuidA, "", ""),
			want: "onprem://ber1/node-" + uuidA,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := newProviderID("ber1", tt.node, indexed(t, tt.peers))
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Clones join in any order, and the Node of each may or may not have got its
// provider ID by the time the next one is asked for.
func TestNewProviderID_ClonesNeverShare(t *testing.T) {
	for _, written := range []bool{true, false} {
		var peers []*corev1.Node
		seen := map[string]string{}
		for _, name := range []string{"a", "b", "c"} {
			node := machine(name, uuidA, machineA)
			peers = append(peers, node)
			id, err := newProviderID("ber1", node, indexed(t, peers))
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[id]; ok {
				t.Errorf("%s and %s are both %s (provider ID written: %v)", other, name, id, written)
			}
			seen[id] = name
			if written {
				node.Spec.ProviderID = id
			}
		}
	}
}

// Without its index the cache cannot tell whether an identity is free.
func TestNewProviderID_NoIndex(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if id, err := newProviderID("ber1", machine("a", uuidA, machineA), nodes); err == nil {
		t.Errorf("got %s, want an error", id)
	}
}
