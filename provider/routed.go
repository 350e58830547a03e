package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/agents"
	"github.com/ccmadm/ccmadm/provider/objects"
	"github.com/ccmadm/ccmadm/provider/routes"
)

var _ cloudprovider.Routes = (*Cloud)(nil)

// ServeRoutes lets Routes be served, which needs an agent on every Node; --configure-cloud-routes asks for it. It comes
// before Initialize.
func (c *Cloud) ServeRoutes() { c.routed = true }

// Routes is served where it was asked for: else the routes between machines belong to a network add-on.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return c, c.routed }

// connectRoutes lets the route controller be answered from the reports of agents.
func (c *Cloud) connectRoutes(factory informers.SharedInformerFactory) error {
	client, err := objects.New(c.cluster.config)
	if err != nil {
		return err
	}
	agents, agentsKnown, err := explained("NodeAgents", objects.Informer(client.NodeAgents, &v1alpha1.NodeAgent{}))
	if err != nil {
		return err
	}
	beside, err := c.watchAgents()
	if err != nil {
		return err
	}
	reports, reportsKnown, err := explained("NodeRoutes", objects.Informer(client.NodeRoutes, &v1alpha1.NodeRoutes{}))
	if err != nil {
		return err
	}
	synced := func() error { return errors.Join(agentsKnown(), reportsKnown()) }
	served := &routes.Routes{
		AddOns: &routes.AddOns{Client: c.cluster.client}, Nodes: factory.Core().V1().Nodes().Lister(), Synced: synced,
	}
	if err := served.FollowLeases(beside); err != nil {
		return err
	}
	for _, informer := range []cache.SharedIndexInformer{agents, reports} {
		if err := served.Follow(informer); err != nil {
			return err
		}
		go informer.RunWithContext(c.cluster.ctx)
	}
	c.routes.Store(served)
	return nil
}

// watchAgents watches what agents write beside their reports, once for load balancers and routes.
func (c *Cloud) watchAgents() (*agents.Reader, error) {
	if c.agents != nil {
		return c.agents, nil
	}
	client, err := objects.New(c.cluster.config)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	if c.agents, err = agents.New(c.cluster.client, client, host); err != nil {
		return nil, err
	}
	go c.agents.Run(c.cluster.ctx)
	return c.agents, nil
}

// explained returns an informer, which waits until the definition of its objects is installed, and a function that says
// why they are not known, as long as they are not.
func explained(what string, informer cache.SharedIndexInformer) (cache.SharedIndexInformer, func() error, error) {
	var last atomic.Pointer[error]
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { last.Store(&err) })
	if err != nil {
		return nil, nil, err
	}
	return informer, func() error {
		if informer.HasSynced() {
			return nil
		}
		if why := last.Load(); why != nil {
			return fmt.Errorf("list %s: %w", what, *why)
		}
		return fmt.Errorf("list %s: no answer yet", what)
	}, nil
}

func (c *Cloud) readyRoutes() (*routes.Routes, error) {
	if served := c.routes.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("look at routes: the provider has no client, or no informers, of the controller manager")
}

// ListRoutes returns the routes that all live agents report. On an error, upstream changes nothing.
func (c *Cloud) ListRoutes(ctx context.Context, clusterName string) ([]*cloudprovider.Route, error) {
	served, err := c.readyRoutes()
	if err != nil {
		return nil, err
	}
	return served.ListRoutes(ctx, clusterName)
}

// CreateRoute waits until all live agents report the route.
func (c *Cloud) CreateRoute(ctx context.Context, clusterName, nameHint string, route *cloudprovider.Route) error {
	served, err := c.readyRoutes()
	if err != nil {
		return err
	}
	return served.CreateRoute(ctx, clusterName, nameHint, route)
}

// DeleteRoute forgets a route, which agents remove once its Node is gone.
func (c *Cloud) DeleteRoute(ctx context.Context, clusterName string, route *cloudprovider.Route) error {
	served, err := c.readyRoutes()
	if err != nil {
		return err
	}
	return served.DeleteRoute(ctx, clusterName, route)
}
