// Package objects reads and writes AddressPools, BGPPeers, NodeAgents, NodeAgentLeases,
// NodeAnnouncements and NodeRoutes with their Go types.
//
// Start at New. Client-go's generic clients do the work; generated ones would be the same in some thousand lines.
//
// Reads and writes: what its caller asks for.
// Running it twice: a client keeps nothing.
// It will not: say what becomes of a cluster that has no definitions of them. An informer waits until it has.
package objects

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

type (
	// AddressPools is a client of that kind.
	AddressPools = gentype.ClientWithList[*v1alpha1.AddressPool, *v1alpha1.AddressPoolList]
	// BGPPeers is one, too.
	BGPPeers = gentype.ClientWithList[*v1alpha1.BGPPeer, *v1alpha1.BGPPeerList]
	// NodeAgents is one, too.
	NodeAgents = gentype.ClientWithList[*v1alpha1.NodeAgent, *v1alpha1.NodeAgentList]
	// NodeAgentLeases is one, too.
	NodeAgentLeases = gentype.ClientWithList[*v1alpha1.NodeAgentLease, *v1alpha1.NodeAgentLeaseList]
	// NodeAnnouncements is one, too.
	NodeAnnouncements = gentype.ClientWithList[*v1alpha1.NodeAnnouncements, *v1alpha1.NodeAnnouncementsList]
	// NodeRoutes is one, too.
	NodeRoutes = gentype.ClientWithList[*v1alpha1.NodeRoutes, *v1alpha1.NodeRoutesList]
)

// Client has one for each kind.
type Client struct {
	AddressPools      *AddressPools
	BGPPeers          *BGPPeers
	NodeAgents        *NodeAgents
	NodeAgentLeases   *NodeAgentLeases
	NodeAnnouncements *NodeAnnouncements
	NodeRoutes        *NodeRoutes
}

// New makes clients. It sends no request.
func New(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register %s: %w", v1alpha1.GroupVersion(), err)
	}
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	version := v1alpha1.GroupVersion()
	c := rest.CopyConfig(config)
	c.GroupVersion, c.APIPath = &version, "/apis"
	c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("make client of %s: %w", version, err)
	}
	codec := runtime.NewParameterCodec(scheme)
	return &Client{
		AddressPools: gentype.NewClientWithList("addresspools", client, codec, "",
			func() *v1alpha1.AddressPool { return &v1alpha1.AddressPool{} },
			func() *v1alpha1.AddressPoolList { return &v1alpha1.AddressPoolList{} }),
		BGPPeers: gentype.NewClientWithList("bgppeers", client, codec, "",
			func() *v1alpha1.BGPPeer { return &v1alpha1.BGPPeer{} },
			func() *v1alpha1.BGPPeerList { return &v1alpha1.BGPPeerList{} }),
		NodeAgents: gentype.NewClientWithList("nodeagents", client, codec, "",
			func() *v1alpha1.NodeAgent { return &v1alpha1.NodeAgent{} },
			func() *v1alpha1.NodeAgentList { return &v1alpha1.NodeAgentList{} }),
		NodeAgentLeases: gentype.NewClientWithList("nodeagentleases", client, codec, "",
			func() *v1alpha1.NodeAgentLease { return &v1alpha1.NodeAgentLease{} },
			func() *v1alpha1.NodeAgentLeaseList { return &v1alpha1.NodeAgentLeaseList{} }),
		NodeAnnouncements: gentype.NewClientWithList("nodeannouncements", client, codec, "",
			func() *v1alpha1.NodeAnnouncements { return &v1alpha1.NodeAnnouncements{} },
			func() *v1alpha1.NodeAnnouncementsList { return &v1alpha1.NodeAnnouncementsList{} }),
		NodeRoutes: gentype.NewClientWithList("noderoutes", client, codec, "",
			func() *v1alpha1.NodeRoutes { return &v1alpha1.NodeRoutes{} },
			func() *v1alpha1.NodeRoutesList { return &v1alpha1.NodeRoutesList{} }),
	}, nil
}

// Lister is what an informer needs of a client for L.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Informer makes an informer of the client's objects, the first of which is like example. Somebody has to run it.
func Informer[L runtime.Object](client Lister[L], example runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, options)
		},
	}, example, 0, cache.Indexers{})
}
