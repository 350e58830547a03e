package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the one of our objects in a cluster: AddressPool, BGPPeer, NodeAgent, NodeAgentLease,
// NodeAnnouncements and NodeRoutes.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}
}

// AddToScheme lets clients encode and decode our objects.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&AddressPool{}, &AddressPoolList{}, &BGPPeer{}, &BGPPeerList{}, &NodeAgent{}, &NodeAgentList{},
		&NodeAgentLease{}, &NodeAgentLeaseList{}, &NodeAnnouncements{}, &NodeAnnouncementsList{},
		&NodeRoutes{}, &NodeRoutesList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
