package routes

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// node has addresses without colons for IPv4, and ranges of pods.
func node(name string, addresses []string, ranges ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

// younger makes a Node younger than those of node.
func younger(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	return n
}

func intent(destination, via, name string) Intent {
	i := Intent{Destination: netip.MustParsePrefix(destination), Node: name}
	if via != "" {
		i.Via = netip.MustParseAddr(via)
	}
	return i
}

// equate compares addresses by what they are.
func equate() cmp.Option { return cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}) }

func TestIntents(t *testing.T) {
	own := node("a", []string{"192.0.2.1", "2001:db8::1"}, "10.244.0.0/24", "fd00:10:244::/64")
	b := node("b", []string{"192.0.2.2", "2001:db8::2"}, "10.244.1.0/24", "fd00:10:244:1::/64")
	ownIntents := []Intent{intent("10.244.0.0/24", "", "a"), intent("fd00:10:244::/64", "", "a")}
	late := younger(node("younger", []string{"192.0.2.9"}, "10.244.1.0/24"))
	external := node("c", nil, "10.244.2.0/24")
	external.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "203.0.113.1"}}
	for _, tt := range []struct {
		name     string
		nodes    []*corev1.Node
		within   string
		want     []Intent
		problems []v1alpha1.RouteProblem
	}{
		{
			name:  "a route per range, by the address of its family",
			nodes: []*corev1.Node{own, b},
			want: []Intent{
				ownIntents[0], intent("10.244.1.0/24", "192.0.2.2", "b"), ownIntents[1],
				intent("fd00:10:244:1::/64", "2001:db8::2", "b"),
			},
		},
		{
			name:  "a Node without a range yet",
			nodes: []*corev1.Node{own, node("c", []string{"192.0.2.3"})},
			want:  ownIntents,
		},
		{
			name:  "a Node with an ExternalIP only",
			nodes: []*corev1.Node{own, external},
			want:  ownIntents,
			problems: []v1alpha1.RouteProblem{{
				Destination: "10.244.2.0/24", Node: "c", Reason: Unreachable, Message: "Node/c has no InternalIP of this family",
			}},
		},
		{
			name:  "a range that two Nodes have is the older one's",
			nodes: []*corev1.Node{own, late, b},
			want: []Intent{
				ownIntents[0], intent("10.244.1.0/24", "192.0.2.2", "b"), ownIntents[1],
				intent("fd00:10:244:1::/64", "2001:db8::2", "b"),
			},
			problems: []v1alpha1.RouteProblem{{
				Destination: "10.244.1.0/24", Node: "younger", Reason: Rejected, Message: "overlaps the range of Node/b",
			}},
		},
		{
			name: "a part of an older Node's range, and more than it",
			nodes: []*corev1.Node{
				own,
				b,
				younger(node("part", []string{"192.0.2.8"}, "10.244.1.0/25")),
				younger(node("whole", []string{"192.0.2.9"}, "10.244.0.0/16", "fd00:10:244:1::/80")),
			},
			want: []Intent{
				ownIntents[0], intent("10.244.1.0/24", "192.0.2.2", "b"), ownIntents[1],
				intent("fd00:10:244:1::/64", "2001:db8::2", "b"),
			},
			problems: []v1alpha1.RouteProblem{
				{Destination: "10.244.1.0/25", Node: "part", Reason: Rejected, Message: "overlaps the range of Node/b"},
				{Destination: "10.244.0.0/16", Node: "whole", Reason: Rejected, Message: "overlaps the range of Node/a"},
				{Destination: "fd00:10:244:1::/80", Node: "whole", Reason: Rejected, Message: "overlaps the range of Node/b"},
			},
		},
		{
			name: "a part of the machine's own range that an older Node has",
			nodes: []*corev1.Node{
				younger(node("a", []string{"192.0.2.1"}, "10.244.0.0/24")),
				node("part", []string{"192.0.2.8"}, "10.244.0.0/25"),
			},
			want: []Intent{intent("10.244.0.0/25", "192.0.2.8", "part")},
			problems: []v1alpha1.RouteProblem{
				{Destination: "10.244.0.0/24", Node: "a", Reason: Rejected, Message: "overlaps the range of Node/part"},
			},
		},
		{
			name: "an address of a Node among the pods of another, with the cluster's range known",
			nodes: []*corev1.Node{
				node("a", []string{"192.0.2.1"}, "10.244.0.0/24"),
				node("c", []string{"10.244.1.7", "10.244.1.8", "192.0.2.3"}, "10.244.2.0/24"),
				younger(node("d", []string{"192.0.2.4"}, "10.244.1.0/24")),
			},
			within: "10.244.0.0/16",
			want: []Intent{
				ownIntents[0], intent("10.244.1.0/24", "192.0.2.4", "d"), intent("10.244.2.0/24", "192.0.2.3", "c"),
			},
			problems: []v1alpha1.RouteProblem{{
				Destination: "10.244.1.7/32", Node: "c", Reason: Rejected,
				Message: "InternalIP 10.244.1.7 lies within the cluster's range of pods: it is ignored",
			}},
		},
		{
			name: "an address of a younger Node among the pods of another",
			nodes: []*corev1.Node{
				own,
				node("c", []string{"192.0.2.3"}, "10.244.1.0/24"),
				younger(node("d", []string{"10.244.1.7"})),
			},
			want: []Intent{ownIntents[0], intent("10.244.1.0/24", "192.0.2.3", "c"), ownIntents[1]},
		},
		{
			name:  "an address of the machine among the pods of an older Node",
			nodes: []*corev1.Node{younger(own), node("c", []string{"192.0.2.3"}, "192.0.2.0/28")},
			want:  ownIntents,
			problems: []v1alpha1.RouteProblem{{
				Destination: "192.0.2.0/28", Node: "c", Reason: Rejected, Message: "contains 192.0.2.1, an address of a Node",
			}},
		},
		{
			name:  "a range that would catch the traffic to Nodes",
			nodes: []*corev1.Node{own, node("c", []string{"192.0.2.3"}, "192.0.2.0/24")},
			want:  ownIntents,
			problems: []v1alpha1.RouteProblem{{
				Destination: "192.0.2.0/24", Node: "c", Reason: Rejected, Message: "contains 192.0.2.1, an address of a Node",
			}},
		},
		{
			name:   "a range outside of the cluster's",
			nodes:  []*corev1.Node{own, node("c", []string{"192.0.2.3"}, "198.51.100.0/24")},
			within: "10.244.0.0/16",
			want:   ownIntents[:1],
			problems: []v1alpha1.RouteProblem{
				{
					Destination: "fd00:10:244::/64", Node: "a", Reason: Rejected,
					Message: "not within the cluster's range of pods, [10.244.0.0/16]",
				},
				{
					Destination: "198.51.100.0/24", Node: "c", Reason: Rejected,
					Message: "not within the cluster's range of pods, [10.244.0.0/16]",
				},
			},
		},
		{
			name:  "no range at all",
			nodes: []*corev1.Node{own, node("c", []string{"192.0.2.3"}, "10.244.300.0/24")},
			want:  ownIntents,
			problems: []v1alpha1.RouteProblem{{
				Destination: "10.244.300.0/24", Node: "c", Reason: Rejected,
				Message: `netip.ParsePrefix("10.244.300.0/24"): ParseAddr("10.244.300.0"): IPv4 field has value >255`,
			}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var within []netip.Prefix
			if tt.within != "" {
				within = []netip.Prefix{netip.MustParsePrefix(tt.within)}
			}
			got, problems := Intents("a", tt.nodes, within)
			if diff := cmp.Diff(tt.want, got, equate()); diff != "" {
				t.Errorf("intents (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHold(t *testing.T) {
	start := time.Unix(0, 0)
	own, b := intent("10.244.0.0/24", "", "a"), intent("10.244.1.0/24", "192.0.2.2", "b")
	moved := intent("10.244.1.0/24", "192.0.2.3", "c")
	type step struct {
		after time.Duration
		given []Intent
		want  []Intent
		next  time.Duration // 0: none
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"a Node that went keeps its route for ten seconds", []step{
			{0, []Intent{own, b}, []Intent{own, b}, 0},
			{time.Minute, []Intent{own}, []Intent{own, b}, time.Minute + 10*time.Second},
			{time.Minute + 9*time.Second, []Intent{own}, []Intent{own, b}, time.Minute + 10*time.Second},
			{time.Minute + 10*time.Second, []Intent{own}, []Intent{own}, 0},
		}},
		{"a Node that comes back within them never lacked it", []step{
			{0, []Intent{own, b}, []Intent{own, b}, 0},
			{time.Second, []Intent{own}, []Intent{own, b}, 11 * time.Second},
			{5 * time.Second, []Intent{own, b}, []Intent{own, b}, 0},
			{20 * time.Second, []Intent{own}, []Intent{own, b}, 30 * time.Second},
		}},
		{"a range that has a new Node is not held for the old one", []step{
			{0, []Intent{own, b}, []Intent{own, b}, 0},
			{time.Second, []Intent{own, moved}, []Intent{own, moved}, 0},
		}},
		{"the machine's own range is not held", []step{
			{0, []Intent{own, b}, []Intent{own, b}, 0},
			{time.Second, []Intent{b}, []Intent{b}, 0},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h holder
			for _, s := range tt.steps {
				got, next := h.hold(start.Add(s.after), s.given)
				if diff := cmp.Diff(s.want, got, equate()); diff != "" {
					t.Errorf("after %s (-want +got):\n%s", s.after, diff)
				}
				if want := start.Add(s.next); s.next != 0 && !next.Equal(want) || s.next == 0 && !next.IsZero() {
					t.Errorf("after %s the next one ends at %s, want %s", s.after, next, want)
				}
			}
		})
	}
}

func TestClusterAddresses(t *testing.T) {
	nodes := []*corev1.Node{
		node("a", []string{"192.0.2.1", "2001:db8::1"}), node("b", []string{"10.244.1.7", "198.51.100.53"}),
	}
	intents := []Intent{intent("10.244.0.0/16", "", "a"), intent("10.244.1.0/24", "192.0.2.2", "b")}
	var want []netip.Prefix
	for _, p := range []string{"10.244.0.0/16", "192.0.2.1/32", "2001:db8::1/128"} {
		want = append(want, netip.MustParsePrefix(p))
	}
	near := func(_ *corev1.Node, address netip.Addr) bool { return address != netip.MustParseAddr("198.51.100.53") }
	if diff := cmp.Diff(want, clusterAddresses(nodes, intents, near), equate()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
