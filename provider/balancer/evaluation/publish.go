package evaluation

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/service/helpers"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// due are the claimed addresses which have been announced once, or were published before. Where no link is
// probed, an address that waits for an endpoint alone is due.
func (e *Inputs) due(as *allocator.Assignment) []netip.Addr {
	before := allocator.Earlier(as.Service, true)
	var list []netip.Addr
	for _, address := range as.Addresses() {
		c := e.Plan.Claims[address]
		if e.Machines.Proxy.answers(c.Level) && !slices.Contains(before, address) {
			continue
		}
		unprobed := c.Level.Announced() && !c.Level.OnLink()
		if !c.Probed.IsZero() || slices.Contains(before, address) || unprobed && e.Machines.unserved(as.Service) {
			list = append(list, address)
		}
	}
	return list
}

// onNodes says that the Service has addresses of Nodes still, and that there is nothing to put in their place.
func (e *Inputs) onNodes(as *allocator.Assignment) bool {
	return len(e.due(as)) == 0 && slices.ContainsFunc(allocator.Earlier(as.Service, true), e.Machines.have)
}

// publishClaimed publishes what is due. Until something is, a Service with addresses of Nodes follows these as long as
// there are any, and what another implementation has published stays. What was ours, and is not any more, goes.
func (e *Inputs) publishClaimed(as *allocator.Assignment, st *Status) {
	list, allocated := e.due(as), allocator.Earlier(as.Service, false)
	ours := func(address netip.Addr) bool {
		return slices.Contains(allocated, address) || e.Machines.Plane.Has(address) || e.lost(as, address)
	}
	switch {
	case len(list) > 0, e.ports[allocator.NameOf(as.Service)] != nil:
		st.publish(list)
	case e.onNodes(as):
		if nodes, _, _ := e.Machines.nodeAddresses(as.Service); len(nodes) > 0 {
			st.publishOnNodes(nodes)
		}
	case slices.ContainsFunc(allocator.Earlier(as.Service, true), ours):
		st.publish(nil)
	}
	st.Complete = len(list) > 0 && len(list) == len(as.Addresses())
}

// lost reports whether a Service that we have served has an address in its status that belongs to a Service of another namespace, or
// that it gave away.
// Its annotation may not say that the address was ours: tenants can edit it, and kube-proxy would go on serving the address.
func (e *Inputs) lost(as *allocator.Assignment, address netip.Addr) bool {
	c := e.Plan.Claims[address]
	if c == nil || !c.Live() || c.Has(allocator.NameOf(as.Service)) || allocator.Condition(as.Service) == nil {
		return false
	}
	if as.Request.GivesAway(address) {
		return true
	}
	return slices.ContainsFunc(c.Owners, func(o types.NamespacedName) bool { return o.Namespace != as.Service.Namespace })
}

// publishOnNodes notes the ports, too, that the Service has of the Nodes.
func (st *Status) publishOnNodes(list []netip.Addr) {
	var ports []corev1.PortStatus
	for _, p := range st.Service.Spec.Ports {
		ports = append(ports, corev1.PortStatus{Port: p.Port, Protocol: p.Protocol})
	}
	st.publish(list, ports...)
}

// publish sets the addresses that kube-proxy and clients see, unless they are the same.
func (st *Status) publish(list []netip.Addr, ports ...corev1.PortStatus) {
	var ingress []corev1.LoadBalancerIngress
	for _, address := range list {
		ingress = append(ingress, corev1.LoadBalancerIngress{
			IP: address.String(), IPMode: new(corev1.LoadBalancerIPModeVIP), Ports: ports,
		})
	}
	if !helpers.LoadBalancerStatusEqual(&st.After.Status.LoadBalancer, &corev1.LoadBalancerStatus{Ingress: ingress}) {
		st.After.Status.LoadBalancer.Ingress = ingress
	}
}
