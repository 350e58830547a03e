package externalips

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// share gives Services that have an address together today what lets them share it as LoadBalancers.
func (p *planner) share() {
	for _, c := range p.candidates {
		clear(c.annotations)
	}
	for _, group := range p.groups() {
		if len(group) < 2 {
			continue
		}
		key := keyOf(group)
		for _, c := range group {
			namespaces := map[string]bool{} // of those with which it has an address together, and not of all
			for _, other := range group {
				if c.meets(other) {
					namespaces[other.object.Namespace] = true
				}
			}
			if c.object.Annotations[v1alpha1.ShareKeyAnnotation] != key {
				c.annotations[v1alpha1.ShareKeyAnnotation] = key
			}
			c.consent(namespaces)
		}
	}
}

// noteShared names the Services of other namespaces with which a Service would share its addresses: the commands give the consent
// of both, which their owners may not want.
func (p *planner) noteShared() {
	for _, group := range p.groups() {
		for _, c := range group {
			var others []string
			for _, other := range group {
				if other.object.Namespace != c.object.Namespace && c.meets(other) {
					others = append(others, "Service/"+other.Service.Service)
				}
			}
			if len(others) > 0 {
				c.Notes = append(c.Notes, "the commands let it share "+texts(c.wanted)+" with "+strings.Join(others, ", ")+
					": ask the owners of the namespaces first")
			}
		}
	}
}

// groups are the Services that have addresses in common, directly or by way of others.
func (p *planner) groups() [][]*candidate {
	var groups [][]*candidate
	for _, c := range p.candidates {
		if !c.moves() {
			continue
		}
		together := []*candidate{c}
		var rest [][]*candidate
		for _, group := range groups {
			if slices.ContainsFunc(group, c.meets) {
				together = append(group, together...)
			} else {
				rest = append(rest, group)
			}
		}
		groups = append(rest, together)
	}
	return groups
}

// meets reports whether the two have an address in common.
func (c *candidate) meets(other *candidate) bool {
	return slices.ContainsFunc(c.wanted, func(a netip.Addr) bool { return slices.Contains(other.wanted, a) })
}

// keyOf is the share key that all of them have already, or one that is named after their lowest address.
func keyOf(group []*candidate) string {
	key := group[0].object.Annotations[v1alpha1.ShareKeyAnnotation]
	lowest := group[0].wanted[0]
	for _, c := range group {
		if c.object.Annotations[v1alpha1.ShareKeyAnnotation] != key {
			key = ""
		}
		for _, address := range c.wanted {
			if address.Less(lowest) {
				lowest = address
			}
		}
	}
	if key != "" {
		return key
	}
	return "external-ips-" + lowest.String()
}

// consent lists the other namespaces beside those that the Service lists already.
func (c *candidate) consent(namespaces map[string]bool) {
	listed, err := v1alpha1.ParseShareNamespaces(c.object.Annotations[v1alpha1.ShareNamespacesAnnotation])
	all := slices.Clone(listed)
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if namespace != c.object.Namespace && !slices.Contains(all, namespace) {
			all = append(all, namespace)
		}
	}
	if err != nil || len(all) != len(listed) {
		c.annotations[v1alpha1.ShareNamespacesAnnotation] = strings.Join(all, ",")
	}
}
