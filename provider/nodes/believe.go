package nodes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// believe reports whether a Node that waits for its initialization may be the machine that was found, or none. All that it
// shows is a claim of its kubelet: whoever holds a bootstrap token may register a Node with any provider ID. So an ID
// of ours has to be supported by something else that leads to the same machine, and one of another provider by a line
// of the inventory. Once a Node is initialized its provider ID stays, whatever else changes.
func believe(i *inventory.Inventory, m *config.Machine, rule inventory.Rule, node *corev1.Node) error {
	id := node.Spec.ProviderID
	_, _, ours := inventory.Split(id)
	switch {
	case m != nil && m.State == config.MachineDecommissioned:
		return finding.Decommissioned.Errorf("machine %s is listed as decommissioned: set state: active if it is in use "+
			"again", m.ID)
	case id == "" && m == nil && i.Policy.UnknownNodes == config.HoldUnknown:
		return finding.UnknownMachine.Errorf("no machine of the inventory matches this Node: list one with match.systemUUID %s "+
			"or hostname %s",
			orNone(config.UUID(node.Status.NodeInfo.SystemUUID)), node.Name)
	case id == "":
		return nil
	case ours:
		return believeOurs(i, m, node)
	case m == nil && i.Policy.UnknownNodes == config.HoldUnknown:
		return finding.UnknownMachine.Errorf("its kubelet reports provider ID %s, which no machine of the inventory has: "+
			"list one with match.providerIDs, or remove the provider ID from the kubelet's configuration", id)
	case m == nil:
		return nil
	}
	return believeListed(m, rule, node)
}

// believeOurs is about a provider ID of ours that the kubelet gave.
func believeOurs(i *inventory.Inventory, m *config.Machine, node *corev1.Node) error {
	id := node.Spec.ProviderID
	facts := inventory.FactsOf(node)
	facts.ProviderID = ""
	supported, _, err := i.Match(facts)
	if err != nil {
		return finding.OtherMachine.Errorf("%w: its kubelet reports provider ID %s", err, id)
	}
	switch {
	case m != nil && m == supported:
		return nil
	case m == nil && supported == nil && i.Policy.UnknownNodes == config.AdoptUnknown && madeFrom(i.Metadata.Site, node):
		return nil
	case supported != nil:
		return finding.OtherMachine.Errorf("its kubelet reports provider ID %s, and its other properties are those of machine %s: "+
			"remove the provider ID from the kubelet's configuration", id, supported.ID)
	}
	return finding.UnprovenIdentity.Errorf("its kubelet reports provider ID %s, and none of its other properties is listed "+
		"for that machine: "+
		"remove the provider ID from the kubelet's configuration, or list match.systemUUID %s or hostname %s",
		id, orNone(config.UUID(node.Status.NodeInfo.SystemUUID)), node.Name)
}

// believeListed is about a provider ID of another provider, which the inventory lists.
func believeListed(m *config.Machine, rule inventory.Rule, node *corev1.Node) error {
	listed, shown := config.UUID(m.Match.SystemUUID), config.UUID(node.Status.NodeInfo.SystemUUID)
	if rule == inventory.ByProviderID && listed != "" && listed != shown {
		return finding.OtherMachine.Errorf("its kubelet reports provider ID %s, machine %s is listed with systemUUID %s, the "+
			"Node shows %s: "+
			"correct its match.systemUUID if the board was replaced", node.Spec.ProviderID, m.ID, listed, orNone(shown))
	}
	return nil
}

// madeFrom reports whether a provider ID is one that the Node would be given anyway.
func madeFrom(site string, node *corev1.Node) bool {
	for _, id := range []string{
		systemUUID(node.Status.NodeInfo), machineID(node.Status.NodeInfo),
		inventory.NamePrefix + node.Name,
	} {
		if id != "" && node.Spec.ProviderID == inventory.ProviderID(site, id) {
			return true
		}
	}
	return false
}
