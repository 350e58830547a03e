package externalips

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// judge looks at one Service without the others.
func (p *planner) judge(object *corev1.Service) *candidate {
	c := &candidate{
		Service:     &Service{Service: object.Namespace + "/" + object.Name, Type: object.Spec.Type, Action: Move},
		object:      object,
		annotations: map[string]string{},
	}
	for _, port := range object.Spec.Ports {
		c.Ports = append(c.Ports, fmt.Sprintf("%d/%s", port.Port, port.Protocol))
	}
	if !c.read() || !c.served() {
		return c
	}
	if c.moves() && !p.cluster.Defined {
		c.block("this cluster has no AddressPools", "`ccmadm apply` on a control plane defines them, for provider onprem")
		return c
	}
	for i, address := range c.wanted {
		p.judgeAddress(c, i, address)
	}
	return c
}

// read reads the addresses. False: the Service is decided.
func (c *candidate) read() bool {
	families := map[bool]int{}
	unread := ""
	for _, text := range c.object.Spec.ExternalIPs {
		address, err := netip.ParseAddr(text)
		address = address.Unmap()
		if err != nil {
			unread = finding.Clean(text)
			c.Addresses = append(c.Addresses, Address{Address: unread, Conflict: "it cannot be read"})
			continue
		}
		if !slices.Contains(allocator.Families(c.object), address.Is6()) {
			c.Addresses = append(c.Addresses, Address{
				Address: address.String(), Conflict: "the Service has no " + string(allocator.FamilyName(address.Is6())) + ": kube-proxy ignores it",
			})
			continue
		}
		if !slices.Contains(c.wanted, address) {
			families[address.Is6()]++
			c.wanted = append(c.wanted, address)
		}
	}
	// Those to move come first, in the order of wanted.
	var list []Address
	for _, address := range c.wanted {
		list = append(list, Address{Address: address.String()})
	}
	c.Addresses = append(list, c.Addresses...)
	switch {
	case unread != "":
		c.block("address "+unread+" cannot be read", "correct spec.externalIPs")
	case c.object.DeletionTimestamp != nil:
		c.block("the Service is being deleted", "wait until it is gone")
	case families[false] > 1 || families[true] > 1:
		c.block("it has several addresses of one IP family, and a LoadBalancer Service has one of each",
			"create a Service with the same selector and ports for each further address")
	case len(c.wanted) == 0:
		c.Action, c.Reason = Remove, "kube-proxy ignores addresses of an IP family that the Service does not have"
	default:
		return true
	}
	return false
}

// served decides by type and status. False: the Service is decided.
func (c *candidate) served() bool {
	spec := c.object.Spec
	has := allocator.Earlier(c.object, true)
	class := spec.LoadBalancerClass
	switch {
	case spec.Type == corev1.ServiceTypeExternalName || spec.ClusterIP == corev1.ClusterIPNone:
		c.Action, c.Reason = Remove, "kube-proxy ignores the addresses: the Service is headless, or of type ExternalName"
	case spec.Type != corev1.ServiceTypeLoadBalancer:
		return true
	case !slices.ContainsFunc(c.wanted, func(a netip.Addr) bool { return !slices.Contains(has, a) }):
		c.Action, c.Reason = Remove, "its status has the same addresses"
	case class != nil && *class != v1alpha1.LoadBalancerClass:
		c.block("loadBalancerClass "+finding.Clean(*class)+" is served by another program",
			"create a second Service of type LoadBalancer with the same selector and ports for the address")
	case len(has) > 0 || hasHostname(c.object):
		c.block("its load balancer already has another address, which the move would replace",
			"create a second Service of type LoadBalancer with the same selector and ports for the address")
	default:
		return true
	}
	return false
}

// hasHostname says that a cloud's load balancer is known by name.
func hasHostname(object *corev1.Service) bool {
	return slices.ContainsFunc(object.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.Hostname != "" })
}

// texts are addresses as annotations have them.
func texts(list []netip.Addr) string {
	var all []string
	for _, address := range list {
		all = append(all, address.String())
	}
	return strings.Join(all, ",")
}
