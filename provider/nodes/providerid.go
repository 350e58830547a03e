package nodes

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// identities lists all that a Node shows and has: SMBIOS UUID, machine-id and
// provider ID. No value of one kind can equal one of another kind.
func identities(obj any) ([]string, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("index %T: want a Node", obj)
	}
	all := []string{systemUUID(node.Status.NodeInfo), machineID(node.Status.NodeInfo), node.Spec.ProviderID}
	return slices.DeleteFunc(all, func(identity string) bool { return identity == "" }), nil
}

// identityIndex finds Nodes by any of their identities. Looking at every Node for
// every new one would take a cluster of 5,000 longer than writing them.
const identityIndex = "onprem-identity"

func indexers() cache.Indexers { return cache.Indexers{identityIndex: identities} }

// newProviderID picks the identity of a machine that has none: the first of
// SMBIOS UUID, machine-id and Node name that is worth something and that no other
// Node shows or has taken.
//
// Clones that join at once cannot get the same id: whoever is asked for the
// second of them sees the first one in the same informer, so at most one of them
// keeps what they share.
func newProviderID(site string, node *corev1.Node, nodes cache.Indexer) (string, error) {
	for _, id := range []string{systemUUID(node.Status.NodeInfo), machineID(node.Status.NodeInfo)} {
		if id == "" {
			continue
		}
		candidate := inventory.ProviderID(site, id)
		taken, err := anotherIs(nodes, node.Name, id, candidate)
		if err != nil {
			return "", err
		}
		if !taken {
			return candidate, nil
		}
	}
	return inventory.ProviderID(site, inventory.NamePrefix+node.Name), nil
}

// unclaimed is an error if another Node that is alive has the provider ID: a machine image may have brought it along.
func unclaimed(id string, node *corev1.Node, nodes cache.Indexer) error {
	holders, err := nodes.ByIndex(identityIndex, id)
	if err != nil {
		return fmt.Errorf("find Nodes that are %s: %w", id, err)
	}
	for _, holder := range holders {
		if other, ok := holder.(*corev1.Node); ok && other.Name != node.Name && other.Spec.ProviderID == id && alive(other) {
			return taken(id, other.Name)
		}
	}
	return nil
}

// anotherIs reports whether a Node of another name has one of the identities.
func anotherIs(nodes cache.Indexer, name string, identities ...string) (bool, error) {
	for _, identity := range identities {
		holders, err := nodes.ByIndex(identityIndex, identity)
		if err != nil {
			return false, fmt.Errorf("find Nodes that are %s: %w", identity, err)
		}
		for _, holder := range holders {
			if other, ok := holder.(*corev1.Node); ok && other.Name != name {
				return true, nil
			}
		}
	}
	return false, nil
}

// systemUUID returns the machine's SMBIOS UUID with dashes, or "".
func systemUUID(info corev1.NodeSystemInfo) string { return config.UUID(info.SystemUUID) }

// machineID returns the content of /etc/machine-id, or "". It has no dashes, so
// that it never equals a UUID, not even where the kubelet gives both one value.
func machineID(info corev1.NodeSystemInfo) string { return config.Hex128(info.MachineID) }
