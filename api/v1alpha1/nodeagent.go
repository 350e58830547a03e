package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeAgentKind is the kind of the object in which the agent of a Node reports.
const NodeAgentKind = "NodeAgent"

// NodeAgent is what the agent of the Node of the same name reports. The cloud-controller-manager publishes an address
// when an agent reports that it announces it. Every agent watches those of all others: what is long is elsewhere. An
// admission policy lets an agent write the object of its own Node only; even so it is a claim of that Node. The Node
// owns it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Routes",type=integer,JSONPath=`.status.routed`
// +kubebuilder:printcolumn:name="Draining",type=boolean,JSONPath=`.status.draining`
// +kubebuilder:printcolumn:name="Written",type=date,JSONPath=`.status.renewTime`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeAgent struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Status is the report.
	// +optional
	Status NodeAgentStatus `json:"status,omitzero"`
}

// NodeAgentStatus is the report of an agent.
type NodeAgentStatus struct {
	// Version of the agent.
	Version string `json:"version,omitempty"`
	// RenewTime is when the agent wrote this: after every change, and every 20 seconds while no cloud-controller-manager watches
	// NodeAgentLeases.
	RenewTime metav1.MicroTime `json:"renewTime,omitzero"`
	// Egress: the Node can send packets of other Nodes' pods with addresses of their Services.
	// +optional
	Egress bool `json:"egress,omitempty"`
	// Draining: the Node hands over its addresses, and acquires none.
	Draining bool `json:"draining,omitempty"`
	// Announced is the number of announcements in this object. An API server with the definition of an earlier release wants it.
	Announced int32 `json:"announced"`
	// AnnouncementsApart: announcements are in the NodeAnnouncements of this name, and not here.
	// +optional
	AnnouncementsApart bool `json:"announcementsApart,omitempty"`
	// Routed is the number of pod routes, which NodeRoutes of the same name lists.
	Routed int32 `json:"routed"`
	// Interfaces are those with addresses, and with carrier.
	// +listType=map
	// +listMapKey=name
	// +optional
	Interfaces []AgentInterface `json:"interfaces,omitempty"`
	// Announcements are the addresses that this Node announces.
	// +listType=atomic
	// +optional
	Announcements []Announcement `json:"announcements,omitempty"`
	// Conflicts are addresses for which a machine without an agent answers.
	// +listType=atomic
	// +optional
	Conflicts []AddressConflict `json:"conflicts,omitempty"`
	// Sessions are those with BGPPeers.
	// +listType=map
	// +listMapKey=peer
	// +optional
	Sessions []BGPSession `json:"sessions,omitempty"`
	// Listening are the ports on which something on the Node listens for others than itself, as tcp/PORT and udp/PORT: a
	// Service at level NodeIP would take them away. Where many are open it has blocks of 1024 ports, as udp/16384-17407.
	// +listType=atomic
	// +optional
	Listening []string `json:"listening,omitempty"`
	// Gateways are the routers that the Node sends to by default, of each family those of the best route: a Service with such
	// an address would take from the Nodes what they ask the router.
	// +listType=atomic
	// +optional
	Gateways []string `json:"gateways,omitempty"`
	// KernelAnswers are addresses of Services at level L2 for which the kernel of this Node answers, whichever Node has them.
	// +listType=atomic
	// +optional
	KernelAnswers []KernelAnswer `json:"kernelAnswers,omitempty"`
	// ControlPlaneVIP is what this Node knows of the control plane's own address, where it may have it.
	// +optional
	ControlPlaneVIP *VIPReport `json:"controlPlaneVIP,omitempty"`
	// Voters are the lists of Nodes that bind this agent at level L2, the newest at the end: it owns an address only if a majority
	// of each list grants it. The agent writes a list before it acts on it, and starts with its lists again.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Voters []VoterList `json:"voters,omitempty"`
}

// KernelAnswer is an address that is on an interface of a Node, as those of Services are on kube-ipvs0 with kube-proxy in
// mode ipvs, where the kernel's settings have it answer for the address on other interfaces, too.
type KernelAnswer struct {
	// Address in its canonical form.
	Address string `json:"address"`
	// On is the interface that has it.
	On string `json:"on"`
	// Interface is where the kernel answers.
	Interface string `json:"interface"`
}

// VIPReport is what the static pod of the control plane's own address knows on its machine.
type VIPReport struct {
	// Address in its canonical form.
	Address string `json:"address"`
	// Has: this machine answers for the address, or announces it to routers.
	Has bool `json:"has"`
	// Owner is the Node that answers for it, as far as this machine knows; empty: it knows none, or routers decide.
	Owner string `json:"owner,omitempty"`
	// Message is why this machine has the address, or has not.
	Message string `json:"message,omitempty"`
	// Votes are the control planes that decide who has it.
	// +listType=atomic
	// +optional
	Votes []string `json:"votes,omitempty"`
	// Unheard are those of Votes that this machine does not hear.
	// +listType=atomic
	// +optional
	Unheard []string `json:"unheard,omitempty"`
}

const (
	// MaxVoterLists is how many lists of voters a report has.
	MaxVoterLists = 32
	// MaxVoters is how many names such a list has.
	MaxVoters = 512
	// VoterListWriters is how many of a list's Nodes write its names, the first ones: all others write its ID only.
	VoterListWriters = 8
)

// VoterList is a list of Nodes that have a vote on who owns an address of level L2.
type VoterList struct {
	// ID is a digest of the names, in their order.
	// +kubebuilder:validation:MaxLength=16
	ID string `json:"id"`
	// Nodes are the names, the one first that decides in case of a draw. The first eight of them write it.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=253
	// +optional
	Nodes []string `json:"nodes,omitempty"`
}

// Silent returns whether the cloud-controller-manager has found that the agent no longer reports: then it has no vote on
// the owner of an address. The agent's next report ends that, even if no manager removes the annotation.
func (a *NodeAgent) Silent() bool { return a.Annotations[AgentSilentAnnotation] == a.Status.Renewed() }

// With returns a copy of the report with announcements that are apart. It shares what is in both.
func (a *NodeAgent) With(apart *NodeAnnouncements) *NodeAgent {
	whole := *a
	whole.Status.Announced, whole.Status.Announcements, whole.Status.Sessions = apart.Announced, apart.Announcements, apart.Sessions
	return &whole
}

// Renewed is RenewTime as text.
func (s *NodeAgentStatus) Renewed() string { return s.RenewTime.UTC().Format(metav1.RFC3339Micro) }

// AgentInterface is a network interface of a Node.
type AgentInterface struct {
	// Name of the interface.
	Name string `json:"name"`
	// MAC is its hardware address.
	MAC string `json:"mac,omitempty"`
	// Addresses with their prefix lengths.
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
	// Deprecated are those of Addresses whose preferred lifetime is over: a router has announced another prefix, for instance.
	// +listType=atomic
	// +optional
	Deprecated []string `json:"deprecated,omitempty"`
}

// Announcement is an address that a Node announces.
type Announcement struct {
	// Address in its canonical form.
	Address string `json:"address"`
	// Level is L2 or BGP.
	Level Level `json:"level"`
	// Interface on which L2 answers.
	Interface string `json:"interface,omitempty"`
	// Hook is why calls of the AddressPool's hook for this address fail, and since when; empty: they do not, or the pool has none.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Hook string `json:"hook,omitempty"`
}

// AddressConflict is an address for which a machine without an agent answers.
type AddressConflict struct {
	// Address in its canonical form.
	Address string `json:"address"`
	// MAC that answers.
	MAC string `json:"mac"`
	// Interface on which it was seen.
	Interface string `json:"interface"`
	// Seen is when it was, last.
	Seen metav1.MicroTime `json:"seen"`
}

// BGPSession is a session of a Node with a BGPPeer.
type BGPSession struct {
	// Peer is the name of the BGPPeer.
	Peer string `json:"peer"`
	// State is a state of RFC 4271: Established, Active while the Node tries to connect, whatever the attempt has come to, or Idle
	// while it does not try. A session that is lost again and again counts as Established once it has lasted for a minute.
	State string `json:"state"`
	// BFD is Up, Down, or empty where it is not used.
	BFD string `json:"bfd,omitempty"`
	// Message is why there is none, as far as that does not change all the time.
	Message string `json:"message,omitempty"`
	// Advertised is the number of prefixes. It is 0 where announcements are in NodeAnnouncements.
	Advertised int32 `json:"advertised"`
}

// NodeAgentList is what the API server lists.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeAgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the reports.
	Items []NodeAgent `json:"items"`
}
