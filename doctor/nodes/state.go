// Package nodes tells how far the nodes of a cluster have come on their way into external cloud mode, and why one is
// not further.
//
// Start at [State], then [Wait] and [Observe]. A Node to its cause:
//
//  1. watch.go (Wait) or status.go (Observe) reads Nodes and the Lease; lease.go judges whether there is a leader.
//  2. state.go makes a [Status] of each: [StatusOf].
//  3. Where one is behind, ask.go reads once for all: the manager's pods, the last lines of their logs; reviews.go
//     asks the API server what the manager may do. [Facts] is all that was seen, and [Judge] goes by nothing else: package
//     doctor/diagnosis has it judge a snapshot.
//  4. permissions.go says what the manager may not do; logline.go and evidence.go read the log.
//  5. cause.go walks the states in the order in which one has to look. What is wrong with the manager itself is in
//     manager.go, with its pods in podcause.go, with a kubelet in kubelet.go.
//  6. Each cause is a [finding.Finding], its ID in the catalogue of package finding.
//  7. table.go and objects.go show it; [Report] and [WaitError] tell it.
//
// Reads: Nodes, Leases, pods and logs of the cloud-controller-manager, and what it may do. What it may not read it
// leaves out, and says so: what cannot be asked is never taken for what is not there. What a Node or a log says is
// cleaned ([finding.Clean]) before it is shown. Writes: nothing.
package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// State is how far a node has come. The order is that of the way: a node in one state has left all before it behind.
type State int

// The states.
const (
	// Absent: there is no Node of that name.
	Absent State = iota
	// Registered: the Node is there and no manager will initialize it, for it has neither taint nor provider ID.
	Registered
	// Tainted: it waits for a cloud-controller-manager.
	Tainted
	// Claimed: one has been elected.
	Claimed
	// Resolved: the provider knows the machine, but the taint is still there.
	Resolved
	// Initialized: the taint is gone.
	Initialized
	// Addressed: it has an internal IP, so that logs, exec and webhooks reach it.
	Addressed
	// Ready: the kubelet says so.
	Ready
)

// StateNames returns the names of all states, in their order.
func StateNames() []string {
	return []string{"Absent", "Registered", "Tainted", "Claimed", "Resolved", "Initialized", "Addressed", "Ready"}
}

func (s State) String() string { return StateNames()[s] }

// MarshalText makes a state readable in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is its inverse.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}

// ParseState reads a state's name, in any case.
func ParseState(name string) (State, error) {
	is := func(other string) bool { return strings.EqualFold(name, other) }
	i := slices.IndexFunc(StateNames(), is)
	if i < 0 {
		return Absent, fmt.Errorf("state %q: want one of %s", name, strings.Join(StateNames(), ", "))
	}
	return State(i), nil
}

// Status is what is known of a node at one moment.
type Status struct {
	// Time is when it was looked at.
	Time time.Time `json:"time"`
	// Node is its name.
	Node string `json:"node"`
	// State is how far it has come.
	State State `json:"state"`
	// ProviderID is empty until the provider has resolved it.
	ProviderID string `json:"providerID,omitempty"`
	// InternalIPs are the addresses that the API server would use.
	InternalIPs []string `json:"internalIPs,omitempty"`
	// Zone is the value of the well-known label.
	Zone string `json:"zone,omitempty"`
	// Version is the kubelet's.
	Version string `json:"version,omitempty"`
	// Cause says why it is not further, or what is wrong with it. Nil until it was looked for.
	Cause *finding.Finding `json:"cause,omitempty"`
}

// StatusOf works out the state of the node of that name. A nil node is one that is not there. Where there is no leader, or
// that cannot be seen, Claimed is skipped.
func StatusOf(name string, node *corev1.Node, led bool, now time.Time) Status {
	s := Status{Time: now, Node: finding.Clean(name)}
	if node == nil {
		return s
	}
	s.ProviderID = finding.Clean(node.Spec.ProviderID)
	s.Zone = finding.Clean(node.Labels[corev1.LabelTopologyZone])
	s.Version = finding.Clean(node.Status.NodeInfo.KubeletVersion)
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			s.InternalIPs = append(s.InternalIPs, finding.Clean(a.Address))
		}
	}
	switch uninitialized := IsTainted(node); {
	case uninitialized && s.ProviderID != "":
		s.State = Resolved
	case uninitialized && led:
		s.State = Claimed
	case uninitialized:
		s.State = Tainted
	case s.ProviderID == "":
		s.State = Registered
	case len(s.InternalIPs) == 0:
		s.State = Initialized
	case !nodestatus.IsReady(node):
		s.State = Addressed
	default:
		s.State = Ready
	}
	return s
}

// same tells whether there is anything to report.
func (s Status) same(other Status) bool {
	return s.State == other.State && s.ProviderID == other.ProviderID && s.Zone == other.Zone &&
		s.Version == other.Version && slices.Equal(s.InternalIPs, other.InternalIPs)
}

// IsTainted tells whether the Node waits for a cloud-controller-manager. It looks at the key alone, as the cloud-node
// controller does: value and effect vary.
func IsTainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.UninitializedTaint })
}

// IsVirtual tells whether what stands for a machine is a program that starts pods elsewhere (https://virtual-kubelet.io): there is no kubelet,
// and no machine that a provider would know. Its programs write the taint, the label, or both.
func IsVirtual(node *corev1.Node) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == "virtual-kubelet.io/provider" {
			return true
		}
	}
	return node.Labels["type"] == "virtual-kubelet"
}

// machines are the names of all Nodes that are not virtual.
func machines(nodes []corev1.Node) []string {
	var names []string
	for i := range nodes {
		if n := &nodes[i]; !IsVirtual(n) {
			names = append(names, n.Name)
		}
	}
	return names
}

// IsPodReady says what the pod's condition says.
func IsPodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func below(statuses []Status, until State) []Status {
	var list []Status
	for _, s := range statuses {
		if s.State < until {
			list = append(list, s)
		}
	}
	return list
}
