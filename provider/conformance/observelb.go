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

func (l *observedLoadBalancer) GetLoadBalancer(ctx context.Context, cluster string,
	service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	service, back := lend(l.o, "GetLoadBalancer", service)
	defer back()
	answered := l.o.asks("GetLoadBalancer", service.Name)
	status, exists, err := l.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
	answered(err)
	return status, exists, err
}

func (l *observedLoadBalancer) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service,
	nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	service, back := lend(l.o, "EnsureLoadBalancer", service)
	defer back()
	nodes, backAll := lendAll(l.o, "EnsureLoadBalancer", nodes)
	defer backAll()
	answered := l.o.asks("EnsureLoadBalancer", service.Name)
	status, err := l.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
	answered(err)
	return status, err
}

func (l *observedLoadBalancer) UpdateLoadBalancer(ctx context.Context, cluster string, service *corev1.Service,
	nodes []*corev1.Node,
) error {
	service, back := lend(l.o, "UpdateLoadBalancer", service)
	defer back()
	nodes, backAll := lendAll(l.o, "UpdateLoadBalancer", nodes)
	defer backAll()
	answered := l.o.asks("UpdateLoadBalancer", service.Name)
	err := l.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes)
	answered(failedUpdate(err))
	return err
}

// failedUpdate is the error of an update. That another program does the work is none: upstream takes it for done.
func failedUpdate(err error) error {
	if err == cloudprovider.ImplementedElsewhere { //nolint:errorlint // upstream compares it, and fails for one that wraps it
		return nil
	}
	return err
}

func (l *observedLoadBalancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string,
	service *corev1.Service,
) error {
	service, back := lend(l.o, "EnsureLoadBalancerDeleted", service)
	defer back()
	answered := l.o.asks("EnsureLoadBalancerDeleted", service.Name)
	err := l.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
	answered(err)
	return err
}

type observedRoutes struct {
	cloudprovider.Routes
	o *observer
}

func (r *observedRoutes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	answered := r.o.asks("ListRoutes", cluster)
	routes, err := r.Routes.ListRoutes(ctx, cluster)
	answered(err)
	return routes, err
}

func (r *observedRoutes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	answered := r.o.asks("CreateRoute", string(route.TargetNode))
	err := r.Routes.CreateRoute(ctx, cluster, hint, route)
	answered(err)
	return err
}

func (r *observedRoutes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	answered := r.o.asks("DeleteRoute", string(route.TargetNode))
	err := r.Routes.DeleteRoute(ctx, cluster, route)
	answered(err)
	return err
}
