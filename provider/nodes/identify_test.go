package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A Node is named where the inventory lists its name for the machine whose ID it has: then the former Node of a renamed machine, even one
// that still posts status, does not hold its certificate. A Node that only has the hardware is not.
func TestIdentify_Named(t *testing.T) {
	const document = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1}\nmachines:\n"
	for _, tt := range []struct {
		name, machine string
		node          *corev1.Node
		named, proven bool
	}{
		{
			name: "renamed, with listed addresses", machine: "- {id: r1, hostname: new, addresses: [{type: InternalIP, address: 198.18.0.2}]}",
			node: withProviderID(shows("new", ""), "onprem://ber1/r1"), named: true, proven: true,
		},
		{
			name: "renamed, without addresses", machine: "- {id: r1, hostname: new}",
			node: withProviderID(shows("new", ""), "onprem://ber1/r1"), named: true,
		},
		{
			name: "no name is listed", machine: "- {id: r1, match: {systemUUID: " + uuidA + "}, addresses: [{type: InternalIP, address: 198.18.0.2}]}",
			node: withProviderID(shows("new", uuidA), "onprem://ber1/r1"), proven: true,
		},
		{
			name: "another provider's", machine: "- {id: r1, hostname: new, match: {providerIDs: ['kwok://new']}}",
			node: withProviderID(shows("new", ""), "kwok://new"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			former := ready(withProviderID(shows("former", ""), tt.node.Spec.ProviderID), corev1.ConditionUnknown)
			i, _ := withInventory(t, document+tt.machine, former, tt.node)
			n := &Nodes{instances: i, store: i.machines.store}
			got, err := n.Identify(t.Context(), tt.node)
			if err != nil || got.Named != tt.named || got.Proven != tt.proven {
				t.Errorf("got %+v, %v, want named %v and proven %v", got, err, tt.named, tt.proven)
			}
		})
	}
}
