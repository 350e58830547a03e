package externalips

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// Cluster is what there was in a cluster at one moment.
type Cluster struct {
	// Now is that moment.
	Now time.Time
	// Services are all, of every type.
	Services []corev1.Service
	// Claims are all IPAddress objects, those of other owners included.
	Claims     []networkingv1.IPAddress
	Nodes      []corev1.Node
	Namespaces []corev1.Namespace
	CIDRs      []networkingv1.ServiceCIDR
	// Servers are the EndpointSlices of Service default/kubernetes.
	Servers []discoveryv1.EndpointSlice
	// Endpoints are the addresses at which clients reach the API server.
	Endpoints map[netip.Addr]bool
	// Pools, Peers and Agents are ours. Defined is false where the cluster does not know AddressPools.
	Pools  []v1alpha1.AddressPool
	Peers  []v1alpha1.BGPPeer
	Agents []v1alpha1.NodeAgent
	// Renewals say which agents are alive.
	Renewals network.Renewals
	Defined  bool
}

// Read looks at the cluster once. Server is the host at which the caller reaches it. Whatever cannot be asked for is an error.
func Read(ctx context.Context, c client.Reader, server string) (*Cluster, error) {
	r := &Cluster{Now: time.Now()}
	var services corev1.ServiceList
	var claims networkingv1.IPAddressList
	var nodes corev1.NodeList
	var namespaces corev1.NamespaceList
	var cidrs networkingv1.ServiceCIDRList
	var servers discoveryv1.EndpointSliceList
	err := errors.Join(
		network.List(ctx, c, "Services", &services),
		network.List(ctx, c, "IPAddresses", &claims),
		network.List(ctx, c, "Nodes", &nodes),
		network.List(ctx, c, "Namespaces", &namespaces),
		network.List(ctx, c, "ServiceCIDRs", &cidrs),
		network.List(ctx, c, "EndpointSlices", &servers, client.InNamespace(corev1.NamespaceDefault),
			client.MatchingLabels{discoveryv1.LabelServiceName: "kubernetes"}),
		r.readDefined(ctx, c),
	)
	proxied, asked := proxyServer(ctx, c)
	if err := errors.Join(err, asked); err != nil {
		return nil, err
	}
	r.Services, r.Claims, r.Nodes, r.Namespaces = services.Items, claims.Items, nodes.Items, namespaces.Items
	r.CIDRs, r.Servers = cidrs.Items, servers.Items
	r.Endpoints = controlplane.NewLookups().Of(ctx, r.Now, server, proxied)
	return r, nil
}

// readDefined reads the kinds of ours, of which a cluster without them has none.
func (r *Cluster) readDefined(ctx context.Context, c client.Reader) error {
	var pools v1alpha1.AddressPoolList
	var peers v1alpha1.BGPPeerList
	var agents v1alpha1.NodeAgentList
	err := network.List(ctx, c, "AddressPools", &pools)
	r.Defined = !errors.Is(err, network.ErrUndefined)
	err = errors.Join(network.Defined(err), network.Defined(network.List(ctx, c, "BGPPeers", &peers)), network.Defined(network.List(ctx, c, "NodeAgents", &agents)))
	var unread error
	r.Renewals, unread = network.ReadRenewals(ctx, c)
	err = errors.Join(err, unread)
	r.Pools, r.Peers, r.Agents = pools.Items, peers.Items, agents.Items
	return err
}

// proxyServer is the host at which kube-proxy reaches the API server, as the cloud-controller-manager reads it; empty where there
// is no kube-proxy of kubeadm.
func proxyServer(ctx context.Context, c client.Reader) (string, error) {
	var cm corev1.ConfigMap
	err := c.Get(ctx, client.ObjectKey{Namespace: v1alpha1.Namespace, Name: "kube-proxy"}, &cm)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get ConfigMap/%s/kube-proxy: %w", v1alpha1.Namespace, err)
	}
	config, err := clientcmd.Load([]byte(cm.Data["kubeconfig.conf"]))
	if err != nil {
		return "", nil //nolint:nilerr // one that cannot be read has no address, for the cloud-controller-manager too
	}
	for _, cluster := range config.Clusters {
		if u, err := url.Parse(cluster.Server); err == nil {
			return u.Hostname(), nil
		}
	}
	return "", nil
}
