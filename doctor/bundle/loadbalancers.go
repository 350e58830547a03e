package bundle

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ccmadm/ccmadm/doctor/network"
)

// LoadBalancers adds what decides about the addresses of Services: the Services of type LoadBalancer with their EndpointSlices, claims,
// pools, BGP peers and the reports of node agents.
func (b *Bundle) LoadBalancers(s *network.Snapshot) {
	names := map[string]bool{}
	for i := range s.Services {
		names[s.Services[i].Namespace+"/"+s.Services[i].Name] = true
	}
	endpoints := slices.DeleteFunc(slices.Clone(s.Slices), func(e discoveryv1.EndpointSlice) bool {
		return !names[e.Namespace+"/"+e.Labels[discoveryv1.LabelServiceName]]
	})
	addObjects(b, "services", s.Services)
	addObjects(b, "endpointslices", endpoints)
	addObjects(b, "ipaddresses", s.Claims)
	addObjects(b, "addresspools", s.Pools)
	addObjects(b, "bgppeers", s.Peers)
	addObjects(b, "nodeagents", s.Agents)
}

// addObjects adds the objects of a kind as one list, or nothing where there are none.
func addObjects[T any](b *Bundle, kind string, items []T) {
	if len(items) > 0 {
		b.Object("cluster/load-balancers/"+kind+".yaml", map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
}
