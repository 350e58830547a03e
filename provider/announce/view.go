package announce

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// View is what an agent knows of the cluster at a moment: lists of informers, which stay as they were while the API
// server does not answer. Nothing in it may be changed, since caches and announcers share it.
type View struct {
	// Node is the name of the agent's own.
	Node string
	// Draining says that this Node hands its addresses over to other Nodes.
	Draining bool
	// Starting says that this Node has just booted, and may not carry packets yet. Level L2 does not use it: the owner of an
	// address keeps it, and a Node that starts owns none.
	Starting bool
	// Nodes, Agents and Pools by name.
	Nodes  map[string]*corev1.Node
	Agents map[string]*v1alpha1.NodeAgent
	Pools  map[string]*v1alpha1.AddressPool
	// Peers by name.
	Peers map[string]*v1alpha1.BGPPeer
	// Passwords are those of Peers, by key of Secret kube-system/ccmadm-bgp.
	Passwords map[string][]byte
	// Claims of addresses that are to be announced, in their order.
	Claims []Claim
	// Members are the Nodes whose agents have a vote on who owns an address of level L2, the one first that decides in
	// case of a draw. Empty: those of before.
	Members []string
	// Silent are Nodes whose agents or kubelets are not heard of. All would have a vote if these were, in the order of Members: an
	// agent that has just started counts them, since others may still do so.
	Silent, All []string
	// Bound are the lists of voters that bind an agent from its start on, the newest at the end. Later views may have any.
	Bound [][]string
	// Addresses are where agents are heard, by Node.
	Addresses map[string]netip.Addr
	// Gone are Nodes of which an operator says that they are off.
	Gone map[string]bool
}

// Claim is an address that is to be announced. The cloud-controller-manager has written it; agents trust no Service.
type Claim struct {
	// Address is canonical, and without a zone.
	Address netip.Addr
	// Level is one that is announced.
	Level v1alpha1.Level
	// Pool is the name of the AddressPool, which may be gone.
	Pool string
	// Services are the one that has the address, and those that share it.
	Services []types.NamespacedName
	// Probed says that the address is known to be free.
	Probed bool
	// Candidates are the Nodes that may announce the address, as far as the cluster knows, in their order.
	Candidates []string
	// Ending are those of Candidates whose endpoints of a Service with externalTrafficPolicy Local are told to end.
	Ending []string
	// Preferred are those of Candidates that the pool prefers, and ReturnAfter is how long one could announce the address without
	// a gap before it takes it from another Node.
	Preferred   []string
	ReturnAfter time.Duration
	// Early says that this Node does not carry packets for the address yet: it is not taken from an owner.
	Early bool
}

// Here reports whether the Node may announce the address.
func (c Claim) Here(node string) bool { return slices.Contains(c.Candidates, node) }

// Deciding are the Services whose externalTrafficPolicy counts: the first one, and those of its namespace. A Service of another
// namespace shares the address only as long as its policy is Cluster. When it turns to Local, the cloud-controller-manager takes
// it out of the claim; until then it must not stop the announcement of the others.
func (c Claim) Deciding() []types.NamespacedName {
	var list []types.NamespacedName
	for _, service := range c.Services {
		if service.Namespace == c.Services[0].Namespace {
			list = append(list, service)
		}
	}
	return list
}

// ParseClaim reads a claim, without candidates. False: it is none of ours, cannot be read, or its address is only kept
// for the Service that had it.
func ParseClaim(object *networkingv1.IPAddress) (Claim, bool) {
	address, err := netip.ParseAddr(object.Name)
	parent := object.Spec.ParentRef
	if err != nil || object.Labels[networkingv1.LabelManagedBy] != v1alpha1.ClaimManager || parent == nil ||
		object.DeletionTimestamp != nil || object.Annotations[v1alpha1.ClaimReleasedAnnotation] != "" {
		return Claim{}, false
	}
	c := Claim{
		Address: address.Unmap().WithZone(""),
		Level:   v1alpha1.Level(object.Annotations[v1alpha1.ClaimLevelAnnotation]),
		Pool:    object.Annotations[v1alpha1.ClaimPoolAnnotation],
		Probed:  object.Annotations[v1alpha1.ClaimProbedAnnotation] != "",
	}
	if object.Annotations[v1alpha1.ClaimParentLeftAnnotation] == "" {
		c.Services = append(c.Services, types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name})
	}
	for text := range strings.SplitSeq(object.Annotations[v1alpha1.ClaimSharersAnnotation], ",") {
		if namespace, name, ok := strings.Cut(strings.TrimSpace(text), "/"); ok {
			c.Services = append(c.Services, types.NamespacedName{Namespace: namespace, Name: name})
		}
	}
	return c, c.Level.Announced()
}
