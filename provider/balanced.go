package provider

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/balancer"
	"github.com/ccmadm/ccmadm/provider/failover"
	"github.com/ccmadm/ccmadm/provider/objects"
)

var _ cloudprovider.LoadBalancer = (*Cloud)(nil)

// releaseRetry is the time between attempts to give back what is held.
const releaseRetry = 10 * time.Second

// LoadBalancer is served, unless the configuration leaves Services to another program.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c, c.config.LoadBalancers.On()
}

// connectBalancer starts what gives Services their addresses. It writes much where there are many Services, and the API
// server says itself how much it takes.
func (c *Cloud) connectBalancer(factory informers.SharedInformerFactory, recorder record.EventRecorder) error {
	config := rest.CopyConfig(c.cluster.config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	clients, err := objects.New(config)
	if err != nil {
		return err
	}
	endpoint, err := EndpointOf(config)
	if err != nil {
		return err
	}
	settings := balancer.Settings{
		Client: client, Objects: clients, Recorder: recorder, Now: time.Now,
		Nodes: factory.Core().V1().Nodes().Informer(), Services: factory.Core().V1().Services().Informer(),
		Endpoint: endpoint, NodeNetworks: c.config.LoadBalancers.Networks(),
	}
	if machines := c.nodes.Load(); machines != nil {
		settings.Listed = machines.ListedAddresses
	}
	if settings.Agents, err = c.watchAgents(); err != nil {
		return err
	}
	served, err := balancer.New(settings)
	if err != nil {
		return err
	}
	served.RegisterMetrics()
	go served.Run(c.cluster.ctx)
	c.balancer.Store(served)
	if c.config.LoadBalancers.Withdraws() {
		machines := failover.New(failover.Settings{
			Client: client, Nodes: factory.Core().V1().Nodes().Informer(), Recorder: recorder, Now: time.Now,
			Slices: served.EndpointSlices,
		})
		go machines.Run(c.cluster.ctx)
	}
	return nil
}

// releaseBalancers gives back what is held from the time when load balancers were on, which takes until the API server
// has taken all of it.
func (c *Cloud) releaseBalancers() {
	_ = wait.PollUntilContextCancel(c.cluster.ctx, releaseRetry, true, func(ctx context.Context) (bool, error) {
		err := balancer.Release(ctx, c.cluster.client)
		if err != nil {
			klog.ErrorS(err, "Failed to release load balancers after the controller was disabled; retrying", "retry", releaseRetry)
		}
		return err == nil, nil
	}) // an error says that this process ends
}

func (c *Cloud) readyBalancer() (*balancer.Balancer, error) {
	if served := c.balancer.Load(); served != nil {
		return served, nil
	}
	return nil, errors.New("look at Services: the provider has no client, or no informers, of the controller manager")
}

// GetLoadBalancer answers from claims.
func (c *Cloud) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus,
	bool, error,
) {
	served, err := c.readyBalancer()
	if err != nil {
		return nil, false, err
	}
	return served.GetLoadBalancer(ctx, cluster, service)
}

// GetLoadBalancerName is for messages.
func (c *Cloud) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return service.Namespace + "/" + service.Name
}

// EnsureLoadBalancer answers with the addresses of a Service that somebody announces.
func (c *Cloud) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service,
	nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	served, err := c.readyBalancer()
	if err != nil {
		return nil, err
	}
	return served.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

// UpdateLoadBalancer is told that Nodes changed.
func (c *Cloud) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service,
	nodes []*corev1.Node,
) error {
	served, err := c.readyBalancer()
	if err != nil {
		return err
	}
	return served.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

// EnsureLoadBalancerDeleted releases the addresses of a Service.
func (c *Cloud) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	served, err := c.readyBalancer()
	if err != nil {
		return err
	}
	return served.EnsureLoadBalancerDeleted(ctx, cluster, service)
}
