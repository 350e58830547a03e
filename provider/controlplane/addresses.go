// Package controlplane knows the addresses at which clients reach the API server, and keeps other programs' rules from
// leading a machine's requests to them elsewhere.
//
// Start at [Addresses]: none of them is ever a Service's. [Shield] is the rule in the kernel of each machine.
//
// Reads: EndpointSlices of Service default/kubernetes, kubeconfigs, DNS. Writes: with [Shield] a table of nftables of its own,
// as a whole, so that a second run changes nothing.
package controlplane

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// shieldTable is ours alone: it is rewritten as a whole.
const shieldTable = "ccmadm-control-plane"

// ShieldLine names the table of [Shield] as nft(8) does.
const ShieldLine = "nftables table inet " + shieldTable

// Addresses are those at which clients reach the API server. They are never a Service's: kube-proxy would
// send every Node's requests to the API server to that Service.
type Addresses struct {
	// Endpoints are where clients connect: the control plane's address, a load balancer's, or a machine's.
	Endpoints map[netip.Addr]bool
	// Servers are the machines with an API server, by the EndpointSlices of Service default/kubernetes.
	Servers map[netip.Addr]bool
}

// Has reports whether the address is one of them.
func (a Addresses) Has(address netip.Addr) bool { return a.Endpoints[address] || a.Servers[address] }

// IsOf reports whether the address may be published as that of a Node. A machine with an API server keeps its own.
func (a Addresses) IsOf(node *corev1.Node, address netip.Addr, alone bool) bool {
	_, labelled := node.Labels[v1alpha1.ControlPlaneLabel]
	return !a.Has(address) || a.Servers[address] && (alone || labelled)
}

// ServersOf are the addresses of the API servers.
func ServersOf(slices []*discoveryv1.EndpointSlice) map[netip.Addr]bool {
	servers := map[netip.Addr]bool{}
	for _, slice := range slices {
		if !IsServers(slice) {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					servers[address.Unmap()] = true
				}
			}
		}
	}
	return servers
}

// IsServers reports whether the slice has the addresses of the API servers.
func IsServers(slice *discoveryv1.EndpointSlice) bool {
	return slice.Namespace == metav1.NamespaceDefault && slice.Labels[discoveryv1.LabelServiceName] == "kubernetes"
}
