package network

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Verdict is what the rules say of one Node for one Service.
type Verdict struct {
	// Node is its name.
	Node string `json:"node"`
	// Announces are the Service's addresses that it announces, each with its interface.
	Announces []string `json:"announces,omitempty"`
	// Eligible says that no rule is against it.
	Eligible bool `json:"eligible"`
	// Because says of an eligible Node why it announces them, or does not.
	Because string `json:"because,omitempty"`
	// Rules are all that were looked at.
	Rules []Rule `json:"rules"`
}

// Rule is one condition that a Node has to meet.
type Rule struct {
	// Name is agent, draining, label, selector, interface, session, endpoint or ready.
	Name string `json:"name"`
	// Met reports whether it does, and Note what was seen.
	Met  bool   `json:"met"`
	Note string `json:"note,omitempty"`
}

// Against is what the first rule says that is not met.
func (v Verdict) Against() string { return v.unmet().Note }

// unmet is the first rule that is not met; without a name, all are.
func (v Verdict) unmet() Rule {
	for _, r := range v.Rules {
		if !r.Met {
			return r
		}
	}
	return Rule{}
}

// verdicts are those of all Nodes, by name. A label that rules Nodes out under policy Auto does so while others are
// left.
func (s *Snapshot) verdicts(svc *corev1.Service, claims []networkingv1.IPAddress) []Verdict {
	list := s.judgeNodes(svc, claims, true)
	if !slices.ContainsFunc(list, func(v Verdict) bool { return v.Eligible }) &&
		s.excludePolicy(claims) == v1alpha1.ExcludeAuto {
		list = s.judgeNodes(svc, claims, false)
	}
	slices.SortStableFunc(list, func(a, b Verdict) int { return cmp.Compare(a.Node, b.Node) })
	s.because(list, claims)
	return list
}

func (s *Snapshot) judgeNodes(svc *corev1.Service, claims []networkingv1.IPAddress, exclude bool) []Verdict {
	var list []Verdict
	exclude = exclude && s.excludePolicy(claims) != v1alpha1.ExcludeIgnore
	for i := range s.Nodes {
		n := &s.Nodes[i]
		v := Verdict{Node: n.Name, Rules: []Rule{excluded(n, exclude)}}
		if len(claims) == 0 {
			v.Rules = append(v.Rules, ready(n))
		} else {
			v.Rules = append(v.Rules, s.agentRules(n, claims)...)
		}
		v.Rules = append(v.Rules, draining(n))
		v.Rules = append(v.Rules, s.endpoints(n.Name, svc, claims)...)
		v.Eligible = !slices.ContainsFunc(v.Rules, func(r Rule) bool { return !r.Met })
		v.Announces = s.announcedBy(n.Name, claims)
		list = append(list, v)
	}
	return list
}

// excludePolicy is that of the pool; without one, at level NodeIP, Auto.
func (s *Snapshot) excludePolicy(claims []networkingv1.IPAddress) v1alpha1.ExcludePolicy {
	for _, c := range claims {
		if pool := s.pool(c.Annotations[v1alpha1.ClaimPoolAnnotation]); pool != nil {
			return cmp.Or(pool.Spec.ExcludeLabel, v1alpha1.ExcludeAuto)
		}
	}
	return v1alpha1.ExcludeAuto
}

func excluded(n *corev1.Node, holds bool) Rule {
	_, labelled := n.Labels[v1alpha1.ExcludeLabel]
	switch {
	case labelled && holds:
		return Rule{Name: "label", Note: "label " + v1alpha1.ExcludeLabel}
	case labelled:
		return Rule{Name: "label", Met: true, Note: "label " + v1alpha1.ExcludeLabel + " is not honoured"}
	default:
		return Rule{Name: "label", Met: true}
	}
}

func ready(n *corev1.Node) Rule {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return Rule{Name: "ready", Met: true}
		}
	}
	return Rule{Name: "ready", Note: "the Node is not Ready"}
}

// agentRules are those that the Node's agent and the pool of the first address decide.
func (s *Snapshot) agentRules(n *corev1.Node, claims []networkingv1.IPAddress) []Rule {
	a := s.agent(n.Name)
	switch {
	case a == nil:
		return []Rule{{Name: "agent", Note: "no agent has ever reported from here"}}
	case !s.live(a):
		return []Rule{{Name: "agent", Note: fmt.Sprintf("its agent has not reported for %s", s.silence(a).Round(time.Second))}}
	case a.Status.Draining:
		return []Rule{{Name: "draining", Note: "its agent is handing over its addresses"}}
	}
	list := []Rule{{Name: "agent", Met: true}}
	for _, c := range claims {
		pool := s.pool(c.Annotations[v1alpha1.ClaimPoolAnnotation])
		if pool == nil {
			pool = &v1alpha1.AddressPool{} // its defaults
		}
		list = append(list, selected(n, pool))
		if v1alpha1.Level(c.Annotations[v1alpha1.ClaimLevelAnnotation]).BySession() {
			list = append(list, session(a))
		} else {
			list = append(list, onInterface(a, pool, addressOf(c)))
		}
	}
	return list
}

func selected(n *corev1.Node, pool *v1alpha1.AddressPool) Rule {
	if pool.Spec.Nodes == nil {
		return Rule{Name: "selector", Met: true}
	}
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.Nodes)
	if err != nil || !selector.Matches(labels.Set(n.Labels)) {
		return Rule{Name: "selector", Note: "not among the nodes of AddressPool " + pool.Name}
	}
	return Rule{Name: "selector", Met: true}
}

func session(a *v1alpha1.NodeAgent) Rule {
	note := "it has no session with any BGPPeer"
	for _, peer := range a.Status.Sessions {
		if peer.State == "Established" {
			return Rule{Name: "session", Met: true, Note: "session with " + peer.Peer}
		}
		note = fmt.Sprintf(
			"session with BGPPeer %s is %s: %s",
			peer.Peer,
			peer.State,
			finding.Clean(cmp.Or(peer.Message, "no message")),
		)
	}
	return Rule{Name: "session", Note: note}
}

// onInterface wants one with a subnet that holds the address, or one that the pool names.
func onInterface(a *v1alpha1.NodeAgent, pool *v1alpha1.AddressPool, address string) Rule {
	for _, i := range a.Status.Interfaces {
		holds := slices.ContainsFunc(i.Addresses, func(subnet string) bool { return contains(subnet, address) })
		if slices.Contains(pool.Spec.Interfaces, i.Name) || len(pool.Spec.Interfaces) == 0 && holds {
			return Rule{Name: "interface", Met: true, Note: finding.Clean(i.Name)}
		}
	}
	if len(pool.Spec.Interfaces) > 0 {
		return Rule{
			Name: "interface",
			Note: "it has none of the interfaces " + strings.Join(pool.Spec.Interfaces, ", ") + " with carrier",
		}
	}
	return Rule{Name: "interface", Note: "none of its interfaces has a subnet that holds " + address}
}

// draining is what makes a Node give away what it announces. A cordon does not.
func draining(n *corev1.Node) Rule {
	note := v1alpha1.Leaving(n)
	return Rule{Name: "draining", Met: note == "", Note: note}
}
