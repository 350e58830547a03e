package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeAnnouncements are the addresses that the Node of the same name announces, as its agent reports them while a cloud-controller-manager
// renews Lease [AgentReaderLease]; otherwise they are in the NodeAgent. Only that manager watches these objects: at level BGP each Node has
// all addresses, and each new one would go from all agents to all. The admission policy of NodeAgents holds for these, and the Node owns
// them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=nodeannouncements,singular=nodeannouncements
// +kubebuilder:printcolumn:name="Announces",type=integer,JSONPath=`.announced`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeAnnouncements struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// RenewTime is when the agent wrote this, by its clock: after every change.
	// +optional
	RenewTime metav1.MicroTime `json:"renewTime,omitzero"`
	// Announced is the number of announcements.
	Announced int32 `json:"announced"`
	// Announcements are the addresses that this Node announces.
	// +listType=atomic
	// +optional
	Announcements []Announcement `json:"announcements,omitempty"`
	// Sessions are those with BGPPeers, with the number of prefixes that they advertise.
	// +listType=map
	// +listMapKey=peer
	// +optional
	Sessions []BGPSession `json:"sessions,omitempty"`
}

// NodeAnnouncementsList is what the API server lists.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeAnnouncementsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the reports.
	Items []NodeAnnouncements `json:"items"`
}
