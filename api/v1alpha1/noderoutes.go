package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeRoutes are the pod routes in the kernel of the Node of the same name, as its agent reports them: after every
// change, and never else. The cloud-controller-manager calls a route created when the agents report that they have it.
// Whether an agent lives is in its NodeAgent. The same admission policy holds for both, and the Node owns both.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,path=noderoutes,singular=noderoutes
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeRoutes struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Routes are those that are in the kernel.
	// +listType=atomic
	// +optional
	Routes []AgentRoute `json:"routes,omitempty"`
	// Problems are routes that could not be set, or that another program owns.
	// +listType=atomic
	// +optional
	Problems []RouteProblem `json:"problems,omitempty"`
}

// AgentRoute is a pod route in the kernel of a Node.
type AgentRoute struct {
	// Destination is the pod CIDR.
	Destination string `json:"destination"`
	// Via is the address of the next hop.
	Via string `json:"via"`
	// Node is the one that has the pods.
	Node string `json:"node"`
}

// RouteProblem is a pod route that is not there.
type RouteProblem struct {
	// Destination is the pod CIDR.
	Destination string `json:"destination"`
	// Node is the one that has the pods.
	Node string `json:"node"`
	// Reason is one of Foreign, Unreachable and Rejected.
	Reason string `json:"reason"`
	// Message has the details.
	Message string `json:"message"`
}

// NodeRoutesList is what the API server lists.
//
// +kubebuilder:object:root=true
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type NodeRoutesList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the reports.
	Items []NodeRoutes `json:"items"`
}
