package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/inventory"
	"github.com/ccmadm/ccmadm/provider/serving"
)

// Identify says which addresses and names are those of a Node that is initialized, for its kubelet's serving
// certificate. Proven are those that the inventory lists for its machine; of any other, its kubelet alone speaks. What
// would keep a Node from being initialized keeps its certificate back, also when the Node has come by.
func (n *Nodes) Identify(ctx context.Context, node *corev1.Node) (serving.Identity, error) {
	id, err := n.identify(ctx, node)
	var f *finding.Finding
	if errors.As(err, &f) {
		return id, &serving.Hold{Reason: f.Reason, Message: err.Error()}
	}
	return id, err
}

func (n *Nodes) identify(ctx context.Context, node *corev1.Node) (serving.Identity, error) {
	if _, err := providedIPs(node); err != nil {
		return serving.Identity{}, &serving.Hold{Reason: "WrongNodeIP", Message: err.Error()}
	}
	metadata, err := n.metadata(ctx, node)
	if err != nil {
		return serving.Identity{}, err
	}
	if metadata.ProviderID != node.Spec.ProviderID {
		return serving.Identity{}, &serving.Hold{Reason: "OtherProviderID", Message: fmt.Sprintf(
			"the Node has provider ID %s, and would get %s", node.Spec.ProviderID, metadata.ProviderID)}
	}
	identity := serving.Identity{Addresses: metadata.NodeAddresses}
	if n.store == nil {
		return identity, nil
	}
	list, m, err := n.machines.find(node)
	if err != nil {
		return serving.Identity{}, err
	}
	_, rule, err := list.Match(inventory.FactsOf(node))
	if err != nil {
		return serving.Identity{}, err
	}
	if err := believe(list, m, rule, node); err != nil {
		return serving.Identity{}, err
	}
	if _, _, ours := inventory.Split(node.Spec.ProviderID); m == nil || !ours {
		return identity, nil
	}
	identity.Named = m.Named(node.Name)
	if !slices.ContainsFunc(m.Addresses, isIP) {
		return identity, nil
	}
	if err := mayBe(node, m, list); err != nil {
		return serving.Identity{}, err
	}
	identity.Addresses, identity.Proven = listedOf(m), true
	return identity, nil
}

// ListedAddresses are the IPs that the inventory lists for the machine of a Node; nil where it lists none, or the Node may
// be another machine.
func (n *Nodes) ListedAddresses(node *corev1.Node) []corev1.NodeAddress {
	if n.store == nil {
		return nil
	}
	list := n.store.Status().Inventory
	if list == nil {
		return nil
	}
	m, rule, err := list.Match(inventory.FactsOf(node))
	if err != nil || m == nil || believe(list, m, rule, node) != nil || mayBe(node, m, list) != nil {
		return nil
	}
	return slices.DeleteFunc(addressList(m.Addresses), func(a corev1.NodeAddress) bool { return !isIP(a) })
}

// mayBe is an error if nothing but what a kubelet can write leads from the Node to the machine: a UUID, a serial number.
// The Node's name is in its kubelet's credentials. Its provider ID was settled when it was initialized; of a machine that
// is listed without a hostname, by just that hardware.
func mayBe(node *corev1.Node, m *config.Machine, list *inventory.Inventory) error {
	named := m.Hostname != "" || len(m.Match.Hostnames) > 0
	own := node.Spec.ProviderID == inventory.ProviderID(list.Metadata.Site, m.ID) ||
		slices.Contains(m.Match.ProviderIDs, node.Spec.ProviderID)
	switch {
	case named && !m.Named(node.Name):
		return &serving.Hold{Reason: "OtherName", Message: fmt.Sprintf(
			"the inventory lists machine %s under another name than %s: list this one with match.hostnames", m.ID, node.Name)}
	case !named && !own:
		return &serving.Hold{Reason: "UnprovenIdentity", Message: fmt.Sprintf("the Node shows the hardware of machine %s, and has "+
			"neither its provider ID nor its name: list it with hostname %s", m.ID, node.Name)}
	}
	return nil
}

// listedOf are the addresses and names that the inventory lists for a machine.
func listedOf(m *config.Machine) []corev1.NodeAddress {
	addresses := addressList(m.Addresses)
	for _, name := range append([]string{m.Hostname}, m.Match.Hostnames...) {
		if name != "" {
			addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
		}
	}
	return addresses
}
