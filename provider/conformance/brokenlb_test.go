package conformance_test

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

func brokenBalancers() []broken {
	return []broken{
		{"load-balancer-is-ensured", func(s *scripted) {
			s.ensure = func(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus,
				error,
			) {
				status, err := s.ensureBalancer(ctx, service, nodes)
				if err == nil {
					status.Ingress = []corev1.LoadBalancerIngress{{Ports: []corev1.PortStatus{{
						Port:     80,
						Protocol: corev1.ProtocolTCP,
					}}}}
					_ = s.locked(func() { s.balancers[string(service.UID)] = status.DeepCopy() })
				}
				return status, err
			}
		}},
		{"load-balancer-ensure-is-idempotent", func(s *scripted) {
			s.ensure = func(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) (*corev1.LoadBalancerStatus,
				error,
			) {
				if len(service.Status.LoadBalancer.Ingress) == 0 {
					_ = s.removeBalancer(ctx, service)
				}
				return s.ensureBalancer(ctx, service, nodes)
			}
		}},
		{"load-balancer-outlives-its-status", func(s *scripted) {
			s.get = func(ctx context.Context, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
				status, ok, err := s.getBalancer(ctx, service)
				return status, ok && (len(service.Status.LoadBalancer.Ingress) > 0 || len(service.Finalizers) > 0), err
			}
		}},
		{"load-balancer-follows-nodes", func(s *scripted) {
			s.update = func(_ context.Context, _ *corev1.Service, nodes []*corev1.Node) error {
				if len(nodes) > 1 {
					return errors.New("one backend is enough")
				}
				return nil
			}
		}},
		{"load-balancer-update-bears-stale-services", func(s *scripted) {
			s.update = func(ctx context.Context, service *corev1.Service, nodes []*corev1.Node) error {
				if len(service.Status.LoadBalancer.Ingress) > 0 {
					return nil
				}
				_ = s.removeBalancer(ctx, service)
				_, err := s.ensureBalancer(ctx, service, nodes)
				return err
			}
		}},
		{"load-balancer-is-deleted-with-its-service", func(s *scripted) {
			s.remove = func(ctx context.Context, service *corev1.Service) error {
				if service.DeletionTimestamp != nil {
					return nil
				}
				return s.removeBalancer(ctx, service)
			}
		}},
		{"load-balancer-is-deleted-with-its-type", func(s *scripted) {
			s.remove = func(ctx context.Context, service *corev1.Service) error {
				if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
					return errors.New("this Service has no load balancer")
				}
				return s.removeBalancer(ctx, service)
			}
		}},
		{"load-balancer-deletion-is-idempotent", func(s *scripted) {
			s.remove = func(ctx context.Context, service *corev1.Service) error {
				if _, ok, _ := s.getBalancer(ctx, service); !ok {
					return errors.New("404")
				}
				return s.removeBalancer(ctx, service)
			}
		}},
		{"load-balancer-is-not-lost-in-a-fault", func(s *scripted) {
			s.get = func(ctx context.Context, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
				status, ok, _ := s.getBalancer(ctx, service)
				return status, ok, nil
			}
		}},
		{"services-are-not-written-to", func(s *scripted) {
			s.update = func(_ context.Context, service *corev1.Service, _ []*corev1.Node) error {
				service.Labels = map[string]string{"example.org/seen": "yes"}
				return nil
			}
		}},
	}
}

func brokenRoutes() []broken {
	return []broken{
		{"route-is-created", func(s *scripted) {
			s.create = func(ctx context.Context, cluster string, route *cloudprovider.Route) error {
				if routes, _ := s.listRoutes(ctx, cluster); len(routes) > 0 && routes[0].TargetNode != route.TargetNode {
					return errors.New("one machine is enough")
				}
				return s.createRoute(ctx, cluster, route)
			}
		}},
		{"route-is-listed-as-created", func(s *scripted) {
			s.list = func(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
				_, err := s.listRoutes(ctx, cluster)
				if err != nil {
					return nil, err
				}
				return nil, nil
			}
		}},
		{"route-is-deleted-with-its-node", func(s *scripted) {
			s.unroute = func(context.Context, string, *cloudprovider.Route) error { return nil }
		}},
		{"route-follows-addresses", func(s *scripted) {
			s.list = func(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
				routes, err := s.listRoutes(ctx, cluster)
				for _, r := range routes {
					if len(r.TargetNodeAddresses) > 2 {
						r.TargetNodeAddresses = r.TargetNodeAddresses[:2]
					}
				}
				return routes, err
			}
		}},
		{"routes-of-other-clusters-are-not-listed", func(s *scripted) {
			s.list = func(ctx context.Context, _ string) ([]*cloudprovider.Route, error) {
				return s.listRoutes(ctx, "conformance")
			}
		}},
		{"routes-are-not-lost-in-a-fault", func(s *scripted) {
			s.list = func(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
				routes, _ := s.listRoutes(ctx, cluster)
				return routes, nil
			}
		}},
	}
}
