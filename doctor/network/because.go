package network

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// fewNodes are named of many.
const fewNodes = 3

// because says of each Node that may have the addresses why it announces them or does not, and of one that is cordoned
// what would move them.
func (s *Snapshot) because(list []Verdict, claims []networkingv1.IPAddress) {
	var able []string
	for _, v := range list {
		if v.Eligible {
			able = append(able, v.Node)
		}
	}
	for i := range list {
		v := &list[i]
		if !v.Eligible {
			continue
		}
		var notes []string
		for _, c := range claims {
			for _, note := range []string{s.owned(v.Node, c, able), s.hook(v.Node, c)} {
				if note != "" && !slices.Contains(notes, note) {
					notes = append(notes, note)
				}
			}
		}
		if len(v.Announces) > 0 && s.cordoned(v.Node) {
			notes = append(notes, "cordoned; neither that nor `kubectl drain` moves an address: `kubectl label node "+
				v.Node+" "+v1alpha1.DrainLabel+"=true` does")
		}
		v.Because = strings.Join(notes, "; ")
	}
}

// owned is the reason for one address. At an elected level one Node has it, and keeps it: no other is better, except one
// that the pool prefers.
func (s *Snapshot) owned(node string, c networkingv1.IPAddress, able []string) string {
	announcers := s.announcers(addressOf(c))
	here := slices.Contains(announcers, node)
	if level := v1alpha1.Level(c.Annotations[v1alpha1.ClaimLevelAnnotation]); !level.Elected() {
		if here {
			return "level " + string(level) + ": every Node that may announce it does"
		}
		return ""
	}
	a := s.agent(node)
	preferred, after := s.preferred(c, able)
	others := slices.DeleteFunc(slices.Clone(able), func(other string) bool { return other == node })
	switch {
	case here && len(others) == 0:
		return "no other Node may have it"
	case preferred[node] && here:
		return "a preferred Node, and keeps the address while it may have it; ready to take over: " + nodes.Some(others, fewNodes)
	case here && len(preferred) > 0:
		return fmt.Sprintf("%s is preferred, and takes the address once it could have announced it without a gap for %s",
			nodes.Some(slices.Sorted(maps.Keys(preferred)), fewNodes), after)
	case here:
		return "a Node keeps an address while it may have it; ready to take over: " + nodes.Some(others, fewNodes)
	case len(announcers) == 0:
		return ""
	case a != nil && announces(a, addressOf(c)) != nil:
		age := s.silence(a).Round(time.Second)
		return fmt.Sprintf("%s reports it since; the report of this Node is %s old", announcers[0], age)
	case preferred[node] && !preferred[announcers[0]]:
		return fmt.Sprintf("preferred; takes the address from %s once it could have announced it without a gap for %s", announcers[0], after)
	default:
		return announcers[0] + " has it, and keeps it while it may have it"
	}
}

// hook is why the provider may send an address to another machine than the Node that announces it.
func (s *Snapshot) hook(node string, c networkingv1.IPAddress) string {
	a := s.agent(node)
	if a == nil || !slices.Contains(s.announcers(addressOf(c)), node) {
		return ""
	}
	said := announces(a, addressOf(c))
	if said == nil || said.Hook == "" {
		return ""
	}
	return "the hook of AddressPool/" + c.Annotations[v1alpha1.ClaimPoolAnnotation] + " " + finding.Clean(said.Hook)
}

// preferred are those of the able Nodes that the address's pool prefers, and how long they are heard before it moves back to one.
func (s *Snapshot) preferred(c networkingv1.IPAddress, able []string) (map[string]bool, time.Duration) {
	pool := s.pool(c.Annotations[v1alpha1.ClaimPoolAnnotation])
	if pool == nil || pool.Spec.PreferredNodes.Selector == nil {
		return nil, 0
	}
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.PreferredNodes.Selector)
	if err != nil {
		return nil, 0
	}
	list := map[string]bool{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; slices.Contains(able, n.Name) && selector.Matches(labels.Set(n.Labels)) {
			list[n.Name] = true
		}
	}
	return list, pool.Spec.PreferredNodes.ReturnAfter.Duration
}

func (s *Snapshot) cordoned(node string) bool {
	return slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node && n.Spec.Unschedulable })
}
