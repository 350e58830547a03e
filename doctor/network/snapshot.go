// Package network tells what addresses of load balancers and routes to pods a cluster has, who announces them, and why
// one is not there.
//
// Start at [Read], which looks once; [Snapshot.Balancers] and [Snapshot.Routes] are the lists, [Snapshot.Why] is the
// decision about one Service, Node by Node.
//
// Reads: Services, their claims (IPAddress objects), AddressPools, BGPPeers, NodeAgents, Nodes and EndpointSlices.
// Writes: nothing. It judges by what agents report, which is a claim of their Nodes: provider/announce decides in the
// agents themselves. It will not: take what it may not ask for as what is not there.
package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Snapshot is what there was in a cluster at one moment.
type Snapshot struct {
	// Now is that moment.
	Now time.Time
	// Services are those of type LoadBalancer.
	Services []corev1.Service
	// Claims are the addresses that Services have, those in quarantine included.
	Claims []networkingv1.IPAddress
	// Pools, Peers and Agents are the cluster's. Defined is false where it does not know AddressPools.
	Pools  []v1alpha1.AddressPool
	Peers  []v1alpha1.BGPPeer
	Agents []v1alpha1.NodeAgent
	// Renewals say which agents are alive.
	Renewals Renewals
	// Reported are the routes of agents.
	Reported []v1alpha1.NodeRoutes
	Defined  bool
	// Nodes are all.
	Nodes []corev1.Node
	// Slices have the endpoints of all Services.
	Slices []discoveryv1.EndpointSlice
}

// NewReader returns a client for Read.
func NewReader(config *rest.Config) (client.Reader, error) {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return c, nil
}

// Read looks at the cluster once. Whatever of it may not be asked for is an error.
func Read(ctx context.Context, c client.Reader) (*Snapshot, error) {
	s := &Snapshot{Now: time.Now()}
	var services corev1.ServiceList
	var claims networkingv1.IPAddressList
	var nodes corev1.NodeList
	var slices discoveryv1.EndpointSliceList
	ours := client.MatchingLabels{networkingv1.LabelManagedBy: v1alpha1.ClaimManager}
	err := errors.Join(
		List(ctx, c, "Services", &services),
		List(ctx, c, "IPAddresses", &claims, ours),
		List(ctx, c, "Nodes", &nodes),
		List(ctx, c, "EndpointSlices", &slices),
	)
	if err != nil {
		return nil, err
	}
	for _, svc := range services.Items {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			s.Services = append(s.Services, svc)
		}
	}
	s.Claims, s.Nodes, s.Slices = claims.Items, nodes.Items, slices.Items
	return s, s.readDefined(ctx, c)
}

// readDefined reads the kinds of ours. A cluster has none of a kind that it does not know, which says nothing of the others.
func (s *Snapshot) readDefined(ctx context.Context, c client.Reader) error {
	var pools v1alpha1.AddressPoolList
	var peers v1alpha1.BGPPeerList
	var agents v1alpha1.NodeAgentList
	err := List(ctx, c, "AddressPools", &pools)
	s.Defined = !errors.Is(err, ErrUndefined)
	err = errors.Join(Defined(err), Defined(List(ctx, c, "BGPPeers", &peers)), Defined(List(ctx, c, "NodeAgents", &agents)))
	if err == nil {
		s.Renewals, err = ReadRenewals(ctx, c)
	}
	if err == nil {
		err = addAnnouncements(ctx, c, agents.Items)
	}
	var routes v1alpha1.NodeRoutesList
	err = errors.Join(err, Defined(List(ctx, c, "NodeRoutes", &routes))) // agents of a release before have none
	s.Reported = routes.Items
	s.Pools, s.Peers, s.Agents = pools.Items, peers.Items, agents.Items
	return err
}

// ErrUndefined says that the API server does not know the kind.
var ErrUndefined = errors.New("the kind is not defined in this cluster")

// Defined is the error, unless the cluster does not know the kind: it has none of it then.
func Defined(err error) error {
	if errors.Is(err, ErrUndefined) {
		return nil
	}
	return err
}

// List reads all objects of a kind, what is its name in messages, into a list. The error is [ErrUndefined] where the cluster has no
// such kind; each other one says that it could not be asked.
func List(ctx context.Context, c client.Reader, what string, into client.ObjectList, opts ...client.ListOption) error {
	err := c.List(ctx, into, opts...)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) { // a list is never not found but by its kind
		return fmt.Errorf("list %s: %w", what, ErrUndefined)
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", what, err)
	}
	return nil
}

// agent is the report of a Node's agent, or nil.
func (s *Snapshot) agent(node string) *v1alpha1.NodeAgent {
	for i := range s.Agents {
		if s.Agents[i].Name == node {
			return &s.Agents[i]
		}
	}
	return nil
}

// silence is how long ago an agent was alive.
func (s *Snapshot) silence(a *v1alpha1.NodeAgent) time.Duration { return s.Renewals.Silence(s.Now, a) }

// live reports whether an agent was alive lately.
func (s *Snapshot) live(a *v1alpha1.NodeAgent) bool { return a != nil && s.silence(a) <= Patience }
