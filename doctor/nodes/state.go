// Package nodes tells how far the nodes of a cluster have come on their way into external cloud mode, and why one is not
// further.
//
// Start at [State], then [Wait] and [Observe]. A Node to its cause: watch.go and status.go make a [Status] of a Node and
// the Lease; where it is behind, evidence.go gathers the manager's pods, Lease and last log lines once, and cause.go
// walks the states in the order in which one has to look; table.go and jsonlines.go show it.
//
// Reads: Nodes, the Lease, pods and logs of the cloud-controller-manager. What it may not read it leaves out, and says so.
// Writes: nothing.
package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// State is how far a node has come. The order is that of the way: a node in one state has left all before it behind.
type State int

// The states.
const (
	// Absent: there is no Node of that name.
	Absent State = iota
	// Registered: the Node is there and nobody will initialize it, for it has neither taint nor provider ID.
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

func stateNames() []string {
	return []string{"Absent", "Registered", "Tainted", "Claimed", "Resolved", "Initialized", "Addressed", "Ready"}
}

func (s State) String() string { return stateNames()[s] }

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
	i := slices.IndexFunc(stateNames(), is)
	if i < 0 {
		return Absent, fmt.Errorf("state %q: want one of %s", name, strings.Join(stateNames(), ", "))
	}
	return State(i), nil
}

// NodeStatus is what is known of a node at one moment.
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
	// Cause says why it is not further. Nil as long as nobody has asked.
	Cause *Cause `json:"cause,omitempty"`
}

// StatusOf works out the state of the node of that name. A nil node is one that is not there, a nil lease one that is
// not there or must not be seen: then Claimed is skipped.
func StatusOf(name string, node *corev1.Node, lease *coordinationv1.Lease, now time.Time) Status {
	s := Status{Time: now, Node: name}
	if node == nil {
		return s
	}
	s.ProviderID = node.Spec.ProviderID
	s.Zone, s.Version = node.Labels[corev1.LabelTopologyZone], node.Status.NodeInfo.KubeletVersion
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			s.InternalIPs = append(s.InternalIPs, a.Address)
		}
	}
	switch uninitialized := hasTaint(node); {
	case uninitialized && s.ProviderID != "":
		s.State = Resolved
	case uninitialized && held(lease, now):
		s.State = Claimed
	case uninitialized:
		s.State = Tainted
	case s.ProviderID == "":
		s.State = Registered
	case len(s.InternalIPs) == 0:
		s.State = Initialized
	case !ready(node):
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

// hasTaint looks at the key alone, as the cloud-node controller does: value and effect vary.
func hasTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.UninitializedTaint })
}

func ready(node *corev1.Node) bool {
	c := readyCondition(node)
	return c != nil && c.Status == corev1.ConditionTrue
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// held tells whether somebody has renewed the lease in time. Clocks of two machines that differ by more than the
// lease lasts would deceive it; the leader election itself does not depend on this.
func held(lease *coordinationv1.Lease, now time.Time) bool {
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" ||
		lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second))
}
