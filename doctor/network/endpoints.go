package network

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/ccmadm/ccmadm/api/finding"
)

// endpoints wants one on the Node for every Service of the address with externalTrafficPolicy Local.
func (s *Snapshot) endpoints(node string, svc *corev1.Service, claims []networkingv1.IPAddress) []Rule {
	names := []string{nameOf(svc)}
	for _, c := range claims {
		names = append(names, ownersOf(c)...)
	}
	slices.Sort(names)
	var list []Rule
	for _, name := range slices.Compact(names) {
		i := slices.IndexFunc(s.Services, func(svc corev1.Service) bool { return nameOf(&svc) == name })
		if i < 0 || s.Services[i].Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
			continue
		}
		r := Rule{Name: "endpoint", Met: s.serves(node, name)}
		if !r.Met {
			r.Note = "externalTrafficPolicy Local, and no ready endpoint of " + name
		}
		list = append(list, r)
	}
	return list
}

// serves reports whether a Node has an endpoint that is ready, or serves while it ends.
func (s *Snapshot) serves(node, service string) bool {
	for _, slice := range s.Slices {
		if slice.Namespace+"/"+slice.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		for _, e := range slice.Endpoints {
			here := e.NodeName != nil && *e.NodeName == node
			isReady := e.Conditions.Ready == nil || *e.Conditions.Ready
			if here && (isReady || e.Conditions.Serving != nil && *e.Conditions.Serving) {
				return true
			}
		}
	}
	return false
}

// announcedBy goes by [Snapshot.announcers]: of a machine that lost its power the last report counts for a minute.
func (s *Snapshot) announcedBy(node string, claims []networkingv1.IPAddress) []string {
	a := s.agent(node)
	var list []string
	for _, c := range claims {
		if !slices.Contains(s.announcers(addressOf(c)), node) {
			continue
		}
		if said := announces(a, addressOf(c)); said != nil {
			list = append(list, strings.TrimSuffix(addressOf(c)+" on "+finding.Clean(said.Interface), " on "))
		}
	}
	return list
}
