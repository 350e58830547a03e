package announce

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/relay"
)

// frontends are the TCP ports of addresses of level Proxy. What a Service cannot have there the
// cloud-controller-manager says on it.
func (e Endpoints) frontends(v *View) []relay.Frontend {
	claims := slices.Clone(v.Claims)
	claims = slices.DeleteFunc(claims, func(c Claim) bool { return c.Level != v1alpha1.LevelProxy })
	if len(claims) == 0 {
		return nil
	}
	balanced := map[netip.Addr]bool{}
	for _, c := range v.Claims {
		balanced[c.Address] = true
	}
	bySlices := map[types.NamespacedName][]*discoveryv1.EndpointSlice{}
	for _, slice := range e.Slices {
		name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		bySlices[name] = append(bySlices[name], slice)
	}
	var list []relay.Frontend
	for _, c := range claims {
		for _, name := range c.Services {
			service := e.Services[name.String()]
			if service == nil {
				continue
			}
			for _, port := range service.Spec.Ports {
				if port.Protocol != corev1.ProtocolTCP {
					continue
				}
				f := frontend(service, netip.AddrPortFrom(c.Address, uint16(port.Port)))
				f.Endpoints = backends{v.Node, service, port, c.Address.Is6(), balanced}.in(bySlices[name])
				list = append(list, f)
			}
		}
	}
	return list
}

func frontend(service *corev1.Service, address netip.AddrPort) relay.Frontend {
	f := relay.Frontend{
		Address: address,
		Header:  service.Annotations[v1alpha1.ProxyProtocolAnnotation] == v1alpha1.ProxyProtocolV2,
		Sticky:  service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
		Limited: len(service.Spec.LoadBalancerSourceRanges) > 0,
	}
	for _, text := range service.Spec.LoadBalancerSourceRanges {
		if source, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil { // as the API server validates it
			f.Sources = append(f.Sources, source.Masked())
		}
	}
	return f
}

// backends are what a port of a Service leads to.
type backends struct {
	node    string
	service *corev1.Service
	port    corev1.ServicePort
	ipv6    bool
	// balanced are addresses of Services: who writes EndpointSlices must not lead connections around in a circle.
	balanced map[netip.Addr]bool
}

// in are the endpoints that are ready, or if none is, those that are told to end and still serve; with
// externalTrafficPolicy Local of this Node only.
func (b backends) in(slices []*discoveryv1.EndpointSlice) []netip.AddrPort {
	by := map[endpointState][]netip.AddrPort{}
	for _, slice := range slices {
		port, there := b.number(slice)
		if !there || (slice.AddressType == discoveryv1.AddressTypeIPv6) != b.ipv6 {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if !b.reaches(endpoint) {
				continue
			}
			for _, text := range endpoint.Addresses {
				address, err := netip.ParseAddr(text)
				if err == nil && address.IsGlobalUnicast() && !b.balanced[address] {
					state := stateOf(endpoint.Conditions)
					by[state] = append(by[state], netip.AddrPortFrom(address, port))
				}
			}
		}
	}
	if len(by[endpointReady]) > 0 {
		return by[endpointReady]
	}
	return by[endpointEnding]
}

func (b backends) reaches(endpoint discoveryv1.Endpoint) bool {
	return b.service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal ||
		endpoint.NodeName != nil && *endpoint.NodeName == b.node
}

// number is the port of the slice's endpoints that has the name of the Service's.
func (b backends) number(slice *discoveryv1.EndpointSlice) (uint16, bool) {
	for _, p := range slice.Ports {
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if name == b.port.Name && p.Port != nil && (p.Protocol == nil || *p.Protocol == corev1.ProtocolTCP) {
			return uint16(*p.Port), true
		}
	}
	return 0, false
}
