package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BGPPeerKind is the kind of the object with a router to which agents speak.
const BGPPeerKind = "BGPPeer"

// BGPPeer is a router to which the agents of the selected Nodes announce addresses and routes:
//
//	apiVersion: ccmadm.dev/v1alpha1
//	kind: BGPPeer
//	metadata: {name: tor1}
//	spec: {address: 192.0.2.1, asn: 64500, localASN: 64512, bfd: {enabled: true}}
//
// With interface in place of address the session is unnumbered.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="Interface",type=string,JSONPath=`.spec.interface`
// +kubebuilder:printcolumn:name="ASN",type=integer,JSONPath=`.spec.asn`
// +kubebuilder:printcolumn:name="Established",type=integer,JSONPath=`.status.established`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BGPPeer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is what the operator wants.
	Spec BGPPeerSpec `json:"spec"`
	// Status is what the cloud-controller-manager sees in the agents' reports.
	// +optional
	Status BGPPeerStatus `json:"status,omitzero"`
}

// BGPPeerSpec is what the operator wants of a BGPPeer.
//
// +kubebuilder:validation:XValidation:rule="!has(self.keepalive) || !has(self.holdTime) || duration(self.keepalive) + duration(self.keepalive) + duration(self.keepalive) <= duration(self.holdTime)",message="keepalive must be a third of holdTime, or less"
// +kubebuilder:validation:XValidation:rule="has(self.address) != has(self.interface)",message="must have either address or interface"
// +kubebuilder:validation:XValidation:rule="!has(self.interface) || !has(self.sourceAddress) || size(self.sourceAddress) == 0",message="sourceAddress must not be set with interface: the session has link-local addresses"
// +kubebuilder:validation:XValidation:rule="!has(self.interface) || !has(self.multiHop) || self.multiHop == 1",message="multiHop must be 1 with interface"
// +kubebuilder:validation:XValidation:rule="has(self.asn) || has(self.interface)",message="asn is required with address"
type BGPPeerSpec struct {
	// Address of the router.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
	// +optional
	Address string `json:"address,omitempty"`
	// Interface of the Node with the router at its other end, in place of address: an unnumbered session, with the link-local
	// address from the router's advertisements (RFC 4861). IPv4 addresses have IPv6 next hops (RFC 8950).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^[^/ %:]+$`
	// +optional
	Interface string `json:"interface,omitempty"`
	// Port of the router. Default: 179.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=179
	// +optional
	Port int32 `json:"port,omitempty"`
	// ASN is the router's autonomous system. Default: none with address, and with interface the one that the router says.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	// +optional
	ASN int64 `json:"asn,omitempty"`
	// LocalASN is that of the Nodes.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	LocalASN int64 `json:"localASN"`
	// PasswordKey is the key of Secret kube-system/ccmadm-bgp that holds the password of TCP MD5. Default: none.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	PasswordKey string `json:"passwordKey,omitempty"`
	// Nodes limits which Nodes speak to this router. Default: all with an agent.
	// +optional
	Nodes *metav1.LabelSelector `json:"nodes,omitempty"`
	// SourceAddress from which Nodes speak. Default: that of the route to the router.
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self == '' || isIP(self)",message="must be an IP address"
	// +optional
	SourceAddress string `json:"sourceAddress,omitempty"`
	// HoldTime after which a router that sends nothing counts as failed, from 3s to 65535s. Default: 9s.
	// +kubebuilder:default="9s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('3s') && duration(self) <= duration('65535s')",message="must be between 3s and 65535s"
	// +optional
	HoldTime metav1.Duration `json:"holdTime,omitzero"`
	// Keepalive between two messages, 1s at least. Default: a third of holdTime.
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be 1s at least"
	// +optional
	Keepalive *metav1.Duration `json:"keepalive,omitempty"`
	// MultiHop is the number of hops to a router that is not in a subnet of the Node. Default: 1, which is in it.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=255
	// +kubebuilder:default=1
	// +optional
	MultiHop int32 `json:"multiHop,omitempty"`
	// GracefulRestart keeps the router's routes while an agent restarts: Nodes go on forwarding. Default: true.
	// +optional
	GracefulRestart *bool `json:"gracefulRestart,omitempty"`
	// BFD detects a failed Node in a fraction of the hold time.
	// +optional
	BFD PeerBFD `json:"bfd,omitzero"`
}

// PeerBFD is how BFD (RFC 5880, single hop) watches a session.
type PeerBFD struct {
	// Enabled needs a router that speaks BFD, too. Default: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// Interval between packets. Default: 300ms.
	// +kubebuilder:default="300ms"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('10s')",message="must be between 10ms and 10s"
	// +optional
	Interval metav1.Duration `json:"interval,omitzero"`
	// Multiplier is how many may be lost. Default: 3.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=50
	// +kubebuilder:default=3
	// +optional
	Multiplier int32 `json:"multiplier,omitempty"`
}

// BGPPeerStatus is what the cloud-controller-manager sees in the agents' reports.
type BGPPeerStatus struct {
	// Established is how many Nodes have a session.
	Established int32 `json:"established"`
	// Nodes is how many should have one.
	Nodes int32 `json:"nodes"`
	// Conditions has Ready: False with the reason, for instance a wrong password or ASN.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BGPPeerList is what the API server lists.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type BGPPeerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the peers.
	Items []BGPPeer `json:"items"`
}
