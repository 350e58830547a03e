package conformance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// LoadBalancer observes the provider's.
func (o *observer) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	l, ok := o.Interface.LoadBalancer()
	if !ok {
		return nil, false
	}
	return &observedLoadBalancer{l, o}, true
}

// Routes observes the provider's.
func (o *observer) Routes() (cloudprovider.Routes, bool) {
	r, ok := o.Interface.Routes()
	if !ok {
		return nil, false
	}
	return &observedRoutes{r, o}, true
}

type observedLoadBalancer struct {
	cloudprovider.LoadBalancer
	o *observer
}

func (l *observedLoadBalancer) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	defer l.o.watch("GetLoadBalancer", service)()
	status, exists, err := l.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
	l.o.saw("GetLoadBalancer", service.Name, err)
	return status, exists, err
}

func (l *observedLoadBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus, error) {
	defer l.o.watch("EnsureLoadBalancer", service, nodes)()
	status, err := l.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
	l.o.saw("EnsureLoadBalancer", service.Name, err)
	return status, err
}

func (l *observedLoadBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) error {
	defer l.o.watch("UpdateLoadBalancer", service, nodes)()
	err := l.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes)
	l.o.saw("UpdateLoadBalancer", service.Name, err)
	return err
}

func (l *observedLoadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	defer l.o.watch("EnsureLoadBalancerDeleted", service)()
	err := l.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
	l.o.saw("EnsureLoadBalancerDeleted", service.Name, err)
	return err
}

type observedRoutes struct {
	cloudprovider.Routes
	o *observer
}

func (r *observedRoutes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	routes, err := r.Routes.ListRoutes(ctx, cluster)
	r.o.saw("ListRoutes", cluster, err)
	return routes, err
}

func (r *observedRoutes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	err := r.Routes.CreateRoute(ctx, cluster, hint, route)
	r.o.saw("CreateRoute", string(route.TargetNode), err)
	return err
}

func (r *observedRoutes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	err := r.Routes.DeleteRoute(ctx, cluster, route)
	r.o.saw("DeleteRoute", string(route.TargetNode), err)
	return err
}
