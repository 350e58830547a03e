package evaluation

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// PrefixTime is how long more than half of the Nodes have to report another prefix, without a gap, before Services get addresses of it.
const PrefixTime = 10 * time.Second

// PrefixVote is which prefixes the Nodes report that may announce addresses of an AddressPool. A kubelet or agent can report any: more than
// half of all that have an agent have to agree, also counting those whose agents do not report.
type PrefixVote struct {
	// Nodes is how many have an agent, and Live how many of these agents report.
	Nodes, Live int
	// Majority are the prefixes that more than half report, in their order.
	Majority []netip.Prefix
	// Beside are those of them that are another network's: they would have none without the Nodes that have them on other interfaces than the
	// present prefix. Seen says that more than half of the Nodes have an address with the present prefix, also one that is deprecated.
	Beside []netip.Prefix
	Seen   bool
	// Together says that one interface has two of them, or that the pool names but one: to name one does not help.
	Together bool
}

// VoteOnPrefix counts for a pool with dynamicPrefix: one voice for each Node. Reported are all agents, and live are those that report.
func VoteOnPrefix(pool *v1alpha1.AddressPool, hosts []*allocator.Host, reported, live []*v1alpha1.NodeAgent) PrefixVote {
	var v PrefixVote
	has, reports := map[string]bool{}, map[string]*v1alpha1.NodeAgent{}
	for _, agent := range reported {
		has[agent.Name] = true
	}
	for _, agent := range live {
		reports[agent.Name] = agent
	}
	present := allocator.PrefixOf(pool)
	voices, beside, seen := map[netip.Prefix]int{}, map[netip.Prefix]int{}, 0
	var places []map[netip.Prefix]place
	for _, h := range mayAnnounce(pool, hosts, has) {
		v.Nodes++
		agent := reports[h.Name]
		if agent == nil {
			continue
		}
		v.Live++
		found, has := prefixesOf(agent, pool, allocator.Prefixes(h.Spec.PodCIDRs), present)
		if has {
			seen++
		}
		places = append(places, found)
		for prefix, where := range found {
			voices[prefix]++
			if has && where.elsewhere {
				beside[prefix]++
			}
		}
	}
	for prefix, n := range voices {
		if 2*n > v.Nodes {
			v.Majority = append(v.Majority, prefix)
			if 2*(n-beside[prefix]) <= v.Nodes {
				v.Beside = append(v.Beside, prefix)
			}
		}
	}
	v.Together = len(pool.Spec.Interfaces) == 1 || v.together(places)
	slices.SortFunc(v.Majority, netip.Prefix.Compare)
	v.Seen = 2*seen > v.Nodes
	return v
}

// together reports whether more than half of the Nodes have one of these prefixes on an interface with another one of them. Others, such as
// that of each Node alone, do not matter.
func (v *PrefixVote) together(places []map[netip.Prefix]place) bool {
	return slices.ContainsFunc(v.Majority, func(prefix netip.Prefix) bool {
		n := 0
		for _, found := range places {
			if slices.ContainsFunc(found[prefix].on, func(interfaceHas map[netip.Prefix]bool) bool {
				return slices.ContainsFunc(v.Majority, func(other netip.Prefix) bool { return other != prefix && interfaceHas[other] })
			}) {
				n++
			}
		}
		return 2*n > v.Nodes
	})
}

// mayAnnounce are the Nodes with an agent that the pool selects. Where Nodes with the label that excludes them do not announce, they have no
// voice. One that leaves has: its voice may not become another's.
func mayAnnounce(pool *v1alpha1.AddressPool, hosts []*allocator.Host, agents map[string]bool) []*allocator.Host {
	selector := labels.Everything()
	if pool.Spec.Nodes != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(pool.Spec.Nodes); err != nil {
			return nil // the pool's condition says so
		}
	}
	var eligible, excluded []*allocator.Host
	for _, h := range hosts {
		switch _, labelled := h.Labels[v1alpha1.ExcludeLabel]; {
		case !agents[h.Name] || !selector.Matches(labels.Set(h.Labels)):
		case labelled && pool.Spec.ExcludeLabel != v1alpha1.ExcludeIgnore:
			excluded = append(excluded, h)
		default:
			eligible = append(eligible, h)
		}
	}
	if len(eligible) == 0 && pool.Spec.ExcludeLabel != v1alpha1.ExcludeHonour {
		return excluded
	}
	return eligible
}

// place says of a prefix of a Node that it is on no interface which has the present prefix, and what the interfaces have that it is on.
type place struct {
	elsewhere bool
	on        []map[netip.Prefix]bool
}

// prefixesOf are those of the addresses of a Node that the Internet routes and that are not deprecated, on the interfaces of the pool. A
// unique local address is of no provider, and does not change. An address of pods says nothing of the network. Has says that an interface
// has the present prefix: addresses that are deprecated count for that, too.
func prefixesOf(
	agent *v1alpha1.NodeAgent, pool *v1alpha1.AddressPool, pods []netip.Prefix, present netip.Prefix,
) (found map[netip.Prefix]place, has bool) {
	found = map[netip.Prefix]place{}
	for _, i := range agent.Status.Interfaces {
		if len(pool.Spec.Interfaces) > 0 && !slices.Contains(pool.Spec.Interfaces, i.Name) {
			continue
		}
		deprecated, here, preferred := map[string]bool{}, false, map[netip.Prefix]bool{}
		for _, text := range i.Deprecated {
			deprecated[text] = true
		}
		for _, text := range i.Addresses {
			p, err := netip.ParsePrefix(text)
			address := p.Addr()
			if err != nil || !address.Is6() || address.Is4In6() || !address.IsGlobalUnicast() || address.IsPrivate() ||
				slices.ContainsFunc(pods, func(r netip.Prefix) bool { return r.Contains(address) }) {
				continue
			}
			here = here || present.IsValid() && present.Contains(address)
			if prefix, err := address.Prefix(int(pool.Spec.DynamicPrefix.Length)); err == nil && !deprecated[text] {
				preferred[prefix] = true
			}
		}
		has = has || here
		for prefix := range preferred {
			where, known := found[prefix]
			found[prefix] = place{!here && (where.elsewhere || !known), append(where.on, preferred)}
		}
	}
	return found, has
}

// Instead is the prefix that is to replace the one that a pool has; invalid: that stays. It stays as long as a majority reports it, and also
// if several others have one, or one of another network.
func (v PrefixVote) Instead(now netip.Prefix) netip.Prefix {
	if len(v.Majority) != 1 || v.Majority[0] == now || len(v.Beside) > 0 {
		return netip.Prefix{}
	}
	return v.Majority[0]
}

// Disagreement says why there is no prefix, or why the one that a pool has is in doubt; empty: a majority reports it.
func (v PrefixVote) Disagreement(now netip.Prefix) string {
	switch {
	case slices.Contains(v.Majority, now) && len(v.Beside) == 0:
		return ""
	case v.Nodes == 0:
		return "no Node that may announce has an agent"
	case 2*v.Live <= v.Nodes:
		return fmt.Sprintf("the agents of %d of %d Nodes report, and more than half have to", v.Live, v.Nodes)
	case len(v.Majority) > 1 && v.Together:
		return fmt.Sprintf("more than half of %d Nodes report each of %v on one interface: deprecate all but one on the router, or remove their "+
			"addresses from the Nodes with ip -6 addr del", v.Nodes, v.Majority)
	case len(v.Majority) > 1:
		return fmt.Sprintf("more than half of %d Nodes report each of %v: name one interface in spec.interfaces", v.Nodes, v.Majority)
	case len(v.Beside) > 0:
		return fmt.Sprintf("more than half of %d Nodes report %s on another interface than %s: name one interface in spec.interfaces",
			v.Nodes, v.Beside[0], now)
	case len(v.Majority) == 1:
		return fmt.Sprintf("more than half of %d Nodes report %s, for less than %s", v.Nodes, v.Majority[0], PrefixTime)
	}
	return fmt.Sprintf("no prefix of a global address is reported by more than half of %d Nodes", v.Nodes)
}
