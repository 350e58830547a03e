package announce

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// silentFor is how long a Node is not Ready before its agent has no vote any more.
const silentFor = 40 * time.Second

// SetMembers fills in who has a vote, and where. The control planes come first: the first of all decides in case of a
// draw. Fresh says that the API server has been heard lately; if not, the Members stay empty, which means those of
// before, since nothing is known of Nodes that are silent.
func (v *View) SetMembers(now time.Time, fresh bool) {
	v.Addresses = map[string]netip.Addr{}
	v.Gone = map[string]bool{}
	var first, others []string
	for name, node := range v.Nodes {
		if addresses := internalAddresses(node); len(addresses) > 0 {
			v.Addresses[name] = addresses[0]
		}
		if outOfService(node) {
			v.Gone[name] = true
			continue
		}
		agent := v.Agents[name]
		if agent == nil {
			continue
		}
		if agent.Silent() || silent(node, now) {
			v.Silent = append(v.Silent, name)
		}
		if _, is := node.Labels[v1alpha1.ControlPlaneLabel]; is {
			first = append(first, name)
		} else {
			others = append(others, name)
		}
	}
	if fresh {
		slices.Sort(first)
		slices.Sort(others)
		slices.Sort(v.Silent)
		v.All = append(first, others...)
		v.Members = slices.DeleteFunc(slices.Clone(v.All), func(name string) bool { return slices.Contains(v.Silent, name) })
	}
}

// gone are those of the members who are off for good: their Nodes were deleted, or an operator says so.
func (v *View) gone(members []string) map[string]bool {
	gone := map[string]bool{}
	for _, name := range members {
		gone[name] = v.Gone[name] || len(v.Nodes) > 0 && v.Nodes[name] == nil
	}
	return gone
}

// outOfService is what an operator says of a Node that is known to be off.
func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// silent says whether the Node's kubelet has not been heard of for a while.
func silent(node *corev1.Node, now time.Time) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue && now.Sub(c.LastTransitionTime.Time) > silentFor
		}
	}
	return false
}
