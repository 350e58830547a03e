package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeAgentLease says that the agent of the Node of the same name is alive. Agents renew theirs every 20 seconds while a
// cloud-controller-manager renews Lease [AgentReaderLease]: it alone watches these objects, whereas every agent watches the NodeAgents
// of all others. It is not a Lease of coordination.k8s.io, because RBAC cannot limit an agent to the name of its Node, and the Leases of
// leader election are of that kind. The admission policy of NodeAgents holds for these, and the Node owns them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Renewed",type=date,JSONPath=`.renewTime`
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeAgentLease struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// RenewTime is when the agent wrote this, by its clock.
	RenewTime metav1.MicroTime `json:"renewTime"`
}

// NodeAgentLeaseList is what the API server lists.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeAgentLeaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the leases.
	Items []NodeAgentLease `json:"items"`
}
