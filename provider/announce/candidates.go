package announce

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Endpoints is what candidates depend on, beside the View.
type Endpoints struct {
	// Services by NAMESPACE/NAME.
	Services map[string]*corev1.Service
	// Slices of all Services.
	Slices []*discoveryv1.EndpointSlice
}

// SetCandidates fills in and sorts what is announced: the Claims, and for each the Nodes that may announce it. Claims of a pool whose
// addresses are in the same subnets share their lists: with a thousand Nodes and as many addresses, most of what there is to find out
// is the same for all.
func (v *View) SetCandidates(e Endpoints) {
	local := e.localNodes(v.Claims)
	slices.SortFunc(v.Claims, func(a, b Claim) int { return a.Address.Compare(b.Address) })
	staying := slices.Sorted(maps.Keys(v.Nodes))
	staying = slices.DeleteFunc(staying, func(name string) bool { return v1alpha1.Leaving(v.Nodes[name]) != "" })
	selected, preferred := map[string][]string{}, map[string]map[string]bool{} // of those that stay, by pool
	subnets, same := v.subnets(), map[likeness]able{}
	for i := range v.Claims {
		c := &v.Claims[i]
		if _, known := selected[c.Pool]; !known {
			selected[c.Pool], preferred[c.Pool] = v.selected(c.Pool, staying), v.preferred(c.Pool, staying)
		}
		like := likeness{c.Level, c.Pool, subnets.around(c.Address)}
		nodes, known := same[like]
		if !known {
			nodes = v.able(*c, selected[c.Pool])
			same[like] = nodes
		}
		c.Candidates, c.Ending = v.candidates(*c, nodes, local)
		if len(c.Candidates) == 0 && !c.Probed && c.Level.OnLink() {
			// The address is published once the network was probed for it, which needs no endpoint.
			c.Candidates, c.Ending = v.candidates(*c, nodes, nil)
		}
		if e.sends(*c) {
			v.senders(c)
		}
		c.Preferred, c.ReturnAfter = nil, v.returnAfter(c.Pool)
		if len(preferred[c.Pool]) == 0 {
			continue
		}
		for _, name := range c.Candidates {
			if preferred[c.Pool][name] {
				c.Preferred = append(c.Preferred, name)
			}
		}
	}
}

// likeness is what claims have in common that the same Nodes can announce.
type likeness struct {
	level   v1alpha1.Level
	pool    string
	subnets string
}

// senders leaves of the candidates those that can send packets of pods with the address, if there are two, so that the address has where to
// go. Others have an agent of an earlier release, for instance.
func (v *View) senders(c *Claim) {
	cannot := func(name string) bool { return v.Agents[name] == nil || !v.Agents[name].Status.Egress }
	if can := slices.DeleteFunc(slices.Clone(c.Candidates), cannot); len(can) > 1 { // the list may be another claim's, too
		c.Candidates, c.Ending = can, slices.DeleteFunc(slices.Clone(c.Ending), cannot)
	}
}

// sends reports whether packets of the pods of a Service leave with the address.
func (e Endpoints) sends(c Claim) bool {
	return c.Level.Elected() && slices.ContainsFunc(c.Services, func(name types.NamespacedName) bool {
		s := e.Services[name.String()]
		return s != nil && v1alpha1.WantsEgress(s.Labels)
	})
}

// subnets are those of all interfaces.
type subnets []netip.Prefix

func (v *View) subnets() subnets {
	seen := map[string]bool{} // as text: most Nodes have addresses of their own, and parsing is the work
	distinct := map[netip.Prefix]bool{}
	for _, agent := range v.Agents {
		for _, i := range agent.Status.Interfaces {
			for _, text := range i.Addresses {
				if seen[text] {
					continue
				}
				seen[text] = true
				if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Bits() < prefix.Addr().BitLen() {
					distinct[prefix.Masked()] = true
				}
			}
		}
	}
	return slices.Collect(maps.Keys(distinct))
}

// around tells apart addresses that are in different subnets.
func (s subnets) around(address netip.Addr) string {
	var key []byte
	for i, prefix := range s {
		if prefix.Contains(address) {
			key = binary.AppendUvarint(key, uint64(i))
		}
	}
	return string(key)
}

// able are the Nodes that can announce an address, and have an agent for it. Those with the label that excludes a Node are apart.
type able struct{ eligible, excluded []string }

func (v *View) able(c Claim, nodes []string) able {
	var a able
	for _, name := range nodes {
		if !v.agent(name, c.Level) || !v.hears(name, c) {
			continue
		}
		if _, labelled := v.Nodes[name].Labels[v1alpha1.ExcludeLabel]; labelled && v.policy(c) != v1alpha1.ExcludeIgnore {
			a.excluded = append(a.excluded, name)
		} else {
			a.eligible = append(a.eligible, name)
		}
	}
	return a
}

// candidates are those of the Nodes that have an endpoint where the Service wants one, and which of these endpoints are told to end.
// The result may be shared.
func (v *View) candidates(c Claim, nodes able, local localEndpoints) (candidates, ending []string) {
	eligible, excluded := nodes.eligible, nodes.excluded
	states, wants := local.states(c)
	if wants {
		eligible, excluded = among(eligible, states), among(excluded, states)
	}
	if len(eligible) == 0 && v.policy(c) == v1alpha1.ExcludeAuto {
		eligible = excluded // kubeadm labels all control planes: a cluster of nothing else has no other Node
	}
	for _, name := range eligible {
		if states[name] == endpointEnding {
			ending = append(ending, name)
		}
	}
	return eligible, ending
}

// among are those of the Nodes, which are in order, that have an endpoint: few of a thousand, for each of thousands of Services.
func among(nodes []string, states map[string]endpointState) []string {
	var with []string
	for name, state := range states {
		if _, is := slices.BinarySearch(nodes, name); is && state != endpointNone {
			with = append(with, name)
		}
	}
	slices.Sort(with)
	return with
}

// agent reports whether the Node has an agent. That this one is here needs no report: BGP does not go when it is
// deleted. An elected level does, since a Node without a report has no vote, and its interfaces are not known.
func (v *View) agent(node string, level v1alpha1.Level) bool {
	return v.Agents[node] != nil || node == v.Node && !level.Elected()
}

func (v *View) policy(c Claim) v1alpha1.ExcludePolicy {
	if pool := v.Pools[c.Pool]; pool != nil && pool.Spec.ExcludeLabel != "" {
		return pool.Spec.ExcludeLabel
	}
	return v1alpha1.ExcludeAuto
}

// selected are those of the Nodes that the pool selects, in their order. One that is gone, or says nothing, selects all.
func (v *View) selected(pool string, nodes []string) []string {
	p := v.Pools[pool]
	if p == nil || p.Spec.Nodes == nil {
		return nodes
	}
	return v.matching(p.Spec.Nodes, nodes)
}

// preferred are those of the Nodes that the pool prefers: none, if it says nothing.
func (v *View) preferred(pool string, nodes []string) map[string]bool {
	p := v.Pools[pool]
	if p == nil || p.Spec.PreferredNodes.Selector == nil {
		return nil
	}
	preferred := map[string]bool{}
	for _, name := range v.matching(p.Spec.PreferredNodes.Selector, nodes) {
		preferred[name] = true
	}
	return preferred
}

func (v *View) returnAfter(pool string) time.Duration {
	if p := v.Pools[pool]; p != nil {
		return p.Spec.PreferredNodes.ReturnAfter.Duration
	}
	return 0
}

func (v *View) matching(s *metav1.LabelSelector, nodes []string) []string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil { // the API server validates selectors of Services, not ours
		return nil
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(name string) bool {
		return !selector.Matches(labels.Set(v.Nodes[name].Labels))
	})
}

// hears reports whether the Node has an interface for the address, where it needs one.
func (v *View) hears(node string, c Claim) bool {
	return !c.Level.OnLink() || InterfaceFor(c.Address, v.Agents[node].Status.Interfaces, v.InterfacesOf(c)) != ""
}

// InterfacesOf are those to which the claim's pool limits L2; none: no limit.
func (v *View) InterfacesOf(c Claim) []string {
	if pool := v.Pools[c.Pool]; pool != nil {
		return pool.Spec.Interfaces
	}
	return nil
}

// InterfaceFor returns which of a Node's interfaces answers for the address: one with a subnet that holds it, the
// longest first, or the only one that is wanted. Empty: none.
func InterfaceFor(address netip.Addr, there []v1alpha1.AgentInterface, wanted []string) string {
	best, bits := "", -1
	for _, i := range there {
		if len(wanted) > 0 && !slices.Contains(wanted, i.Name) {
			continue
		}
		for _, text := range i.Addresses {
			prefix, err := netip.ParsePrefix(text)
			if err == nil && prefix.Bits() > bits && prefix.Bits() < prefix.Addr().BitLen() && prefix.Masked().Contains(address) {
				best, bits = i.Name, prefix.Bits()
			}
		}
		if best == "" && len(wanted) > 0 && i.MAC != "" {
			best = i.Name // an operator who names an interface may have addresses there that no Node has
		}
	}
	return best
}

// endpointState is that of the best endpoint which a Service has on a Node.
type endpointState int

const (
	endpointNone endpointState = iota
	// endpointEnding is told to end and still serves: kube-proxy uses it where its Node has none that is ready.
	endpointEnding
	endpointReady
)

// localEndpoints are, for each Service with externalTrafficPolicy Local, the Nodes with an endpoint.
type localEndpoints map[types.NamespacedName]map[string]endpointState

// localNodes finds them for the Services of claims.
func (e Endpoints) localNodes(claims []Claim) localEndpoints {
	local := localEndpoints{}
	for _, c := range claims {
		for _, name := range c.Deciding() {
			s := e.Services[name.String()]
			if s != nil && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
				local[name] = map[string]endpointState{}
			}
		}
	}
	for _, slice := range e.Slices {
		nodes := local[types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}]
		if nodes == nil {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.NodeName != nil {
				nodes[*endpoint.NodeName] = max(nodes[*endpoint.NodeName], stateOf(endpoint.Conditions))
			}
		}
	}
	return local
}

// stateOf reads what is absent as ready.
func stateOf(c discoveryv1.EndpointConditions) endpointState {
	is := func(condition *bool, absent bool) bool {
		if condition == nil {
			return absent
		}
		return *condition
	}
	switch {
	case is(c.Ready, true):
		return endpointReady
	case is(c.Serving, true) && is(c.Terminating, false):
		return endpointEnding
	}
	return endpointNone
}

// states are, by Node, the worst ones of the claim's Services, of those that want an endpoint there. They must not be changed. Wants: one
// of the Services does.
func (l localEndpoints) states(c Claim) (worst map[string]endpointState, wants bool) {
	if len(l) == 0 {
		return nil, false
	}
	for _, service := range c.Deciding() {
		nodes, local := l[service]
		switch {
		case !local:
		case !wants:
			worst, wants = nodes, true
		default:
			both := map[string]endpointState{}
			for name, state := range worst {
				both[name] = min(state, nodes[name])
			}
			worst = both
		}
	}
	return worst, wants
}
