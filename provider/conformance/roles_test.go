package conformance_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// The roles, which go through the replaceable answers.

func (s *scripted) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (s *scripted) Instances() (cloudprovider.Instances, bool)                        { return nil, false }
func (s *scripted) ProviderName() string {
	if s.nameless {
		return ""
	}
	return "scripted"
}

func (s *scripted) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return machinesOf{s}, s.instances
}

func (s *scripted) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return balancersOf{s}, s.loadBalancer
}

func (s *scripted) Routes() (cloudprovider.Routes, bool) { return routesOf{s}, s.routing }

type machinesOf struct{ s *scripted }

func (m machinesOf) InstanceExists(ctx context.Context, n *corev1.Node) (bool, error) {
	return m.s.exists(ctx, n)
}

func (m machinesOf) InstanceShutdown(ctx context.Context, n *corev1.Node) (bool, error) {
	return m.s.shutdown(ctx, n)
}

func (m machinesOf) InstanceMetadata(ctx context.Context, n *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return m.s.metadata(ctx, n)
}

type balancersOf struct{ s *scripted }

func (b balancersOf) GetLoadBalancer(ctx context.Context, _ string,
	service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	return b.s.get(ctx, service)
}

func (b balancersOf) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

func (b balancersOf) EnsureLoadBalancer(ctx context.Context, _ string, service *corev1.Service,
	nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	return b.s.ensure(ctx, service, nodes)
}

func (b balancersOf) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service,
	nodes []*corev1.Node,
) error {
	return b.s.update(ctx, service, nodes)
}

func (b balancersOf) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	return b.s.remove(ctx, service)
}

type routesOf struct{ s *scripted }

func (r routesOf) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	return r.s.list(ctx, cluster)
}

func (r routesOf) CreateRoute(ctx context.Context, cluster, _ string, route *cloudprovider.Route) error {
	return r.s.create(ctx, cluster, route)
}

func (r routesOf) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return r.s.unroute(ctx, cluster, route)
}
