package provider

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// namePrefix keeps ids made from a Node's name apart from the others, which are
// hexadecimal: no UUID and no machine-id starts like this. Never change it.
const namePrefix = "node-"

// providerID joins site and id. Never change the form: provider IDs are immutable.
func providerID(site, id string) string {
	return Name + "://" + site + "/" + id
}

// ours says whether a provider ID came from here, whatever its site.
func ours(providerID string) bool {
	return strings.HasPrefix(providerID, Name+"://")
}

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
		candidate := providerID(site, id)
		taken, err := anotherIs(nodes, node.Name, id, candidate)
		if err != nil {
			return "", err
		}
		if !taken {
			return candidate, nil
		}
	}
	return providerID(site, namePrefix+node.Name), nil
}

// anotherIs says whether a Node of another name has one of the identities.
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
func systemUUID(info corev1.NodeSystemInfo) string {
	hex := hex128(info.SystemUUID)
	if hex == "" || worthless(hex) {
		return ""
	}
	return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:]}, "-")
}

// machineID returns the content of /etc/machine-id, or "". It has no dashes, so
// that it never equals a UUID, not even where the kubelet gives both one value.
func machineID(info corev1.NodeSystemInfo) string {
	hex := hex128(info.MachineID)
	if hex == "" || worthless(hex) {
		return ""
	}
	return hex
}

// hex128 returns the 32 hexadecimal digits of a UUID, or "" for anything else,
// such as "Not Settable" and "uninitialized".
func hex128(s string) string {
	hex := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(s), "-", ""))
	if len(hex) != 32 || strings.Trim(hex, "0123456789abcdef") != "" {
		return ""
	}
	return hex
}

// worthless knows the placeholders that boards are shipped with. SMBIOS 3.7,
// section 7.2.1: all zeros means absent, all ones means not set.
func worthless(hex string) bool {
	switch hex {
	case "03000200040005000006000700080009", // AMI, both byte orders
		"00020003000400050006000700080009",
		"07090201010303010807060504030201",
		"000102030405060708090a0b0c0d0e0f",
		"12345678123456789012345678901234",
		"deadbeefdeadbeefdeadbeefdeadbeef":
		return true
	}
	const lastTwelveBytesOnes = "ffffffffffffffffffffffff"
	return hex == strings.Repeat(hex[:2], 16) || strings.HasSuffix(hex, lastTwelveBytesOnes)
}
