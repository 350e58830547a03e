package conformance

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// loadBalancerRules are about Services of type LoadBalancer without a class.
func loadBalancerRules() []Rule {
	balancers := (*bed).hasLoadBalancers
	return []Rule{
		{
			Name:  "load-balancer-is-ensured",
			Why:   "EXTERNAL-IP stays <pending>.",
			check: needs(loadBalancerIsEnsured, balancers),
		},
		{
			Name: "load-balancer-ensure-is-idempotent",
			Why: "EnsureLoadBalancer is called at every start of the controller and for every change of the Service: an address " +
				"that moves is an outage.",
			check: needs(loadBalancerEnsureIsIdempotent, balancers),
		},
		{
			Name: "load-balancer-outlives-its-status",
			Why: "Load balancers are looked for in the cloud, not in the status of the Service: it may have been cleared " +
				"(kubernetes/kubernetes#136316), and what is not found is not deleted.",
			check: needs(loadBalancerOutlivesItsStatus, balancers),
		},
		{
			Name:  "load-balancer-follows-nodes",
			Why:   "UpdateLoadBalancer failed for new Nodes, or was refused: traffic goes to machines that are gone.",
			check: needs(loadBalancerFollowsNodes, balancers),
		},
		{
			Name: "load-balancer-update-bears-stale-services",
			Why: "UpdateLoadBalancer is given the Service as it was when it was ensured, without the status that came of it " +
				"(linode/linode-cloud-controller-manager#410).",
			check: needs(loadBalancerUpdateBearsStaleServices, balancers),
		},
		{
			Name:  "load-balancer-is-deleted-with-its-service",
			Why:   "The load balancer stays, and costs, or the finalizer stays, and the namespace hangs in Terminating.",
			check: needs(loadBalancerIsDeletedWithItsService, balancers),
		},
		{
			Name:  "load-balancer-is-deleted-with-its-type",
			Why:   "A Service that becomes ClusterIP must lose load balancer, finalizer and status.",
			check: needs(loadBalancerIsDeletedWithItsType, balancers),
		},
		{
			Name: "load-balancer-deletion-is-idempotent",
			Why: "Deletion is repeated after every error: a load balancer that is gone is a success, or the finalizer stays for " +
				"ever.",
			check: needs(loadBalancerDeletionIsIdempotent, balancers),
		},
		{
			Name: "load-balancer-is-not-lost-in-a-fault",
			Why: "GetLoadBalancer said that there is none while it could not know: the finalizer goes, and the load balancer is an " +
				"orphan.",
			check: needs(loadBalancerIsNotLostInAFault, balancers),
		},
		{
			Name:  "services-are-not-written-to",
			Why:   "Service and Nodes are read-only for the provider: they are in the caches of the informers.",
			check: needs(servicesAreNotWrittenTo, balancers),
		},
	}
}

func loadBalancerIsEnsured(ctx context.Context, b *bed) error {
	if err := b.hasBalanced(ctx); err != nil {
		return err
	}
	service, err := b.getService(ctx)
	if err != nil {
		return err
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ingress.IP == "" && ingress.Hostname == "" {
			return fmt.Errorf("the Service has an ingress without address: %+v", ingress)
		}
	}
	return nil
}

// hasBalanced makes a machine, and a Service with a load balancer.
func (b *bed) hasBalanced(ctx context.Context) error {
	if _, err := b.backend(ctx); err != nil {
		return err
	}
	return b.balanced(ctx)
}

// backend makes a machine to carry traffic, also for a provider that has no instances.
func (b *bed) backend(ctx context.Context) (Machine, error) {
	if b.hasInstances() == nil {
		return b.joined(ctx)
	}
	m, err := b.machine()
	if err != nil {
		return m, err
	}
	return m, b.join(ctx, m, "", func(n *corev1.Node) { n.Spec.ProviderID = "conformance://" + m.UUID })
}

// balancer makes a machine and a Service with a load balancer, and returns what the provider is asked with.
func (b *bed) balancer(ctx context.Context) (cloudprovider.LoadBalancer, *corev1.Service, []*corev1.Node, error) {
	if err := b.hasBalanced(ctx); err != nil {
		return nil, nil, nil, err
	}
	balancer, _ := b.seen.LoadBalancer()
	service, err := b.getService(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	list, err := b.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, nil, err
	}
	var nodes []*corev1.Node
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return balancer, service, nodes, nil
}

// withoutStatus returns the Service as it was before it was ensured.
func withoutStatus(service *corev1.Service) *corev1.Service {
	service = service.DeepCopy()
	service.Status, service.Finalizers = corev1.ServiceStatus{}, nil
	return service
}

// sameIngress compares what clients connect to; of the rest, the API server has defaulted some.
func sameIngress(what string, want *corev1.Service, got *corev1.LoadBalancerStatus) error {
	if got == nil {
		return fmt.Errorf("%s: the status is nil", what)
	}
	if diff := cmp.Diff(addresses(&want.Status.LoadBalancer), addresses(got)); diff != "" {
		return fmt.Errorf("%s: %w, -status of the Service +answer:\n%s", what, errUnlike, diff)
	}
	return nil
}

func addresses(status *corev1.LoadBalancerStatus) []string {
	var all []string
	for _, ingress := range status.Ingress {
		all = append(all, ingress.IP+ingress.Hostname)
	}
	return all
}

func loadBalancerEnsureIsIdempotent(ctx context.Context, b *bed) error {
	balancer, service, nodes, err := b.balancer(ctx)
	if err != nil {
		return err
	}
	for _, s := range []*corev1.Service{service, withoutStatus(service)} {
		status, err := balancer.EnsureLoadBalancer(ctx, clusterName, s, nodes)
		if err != nil {
			return fmt.Errorf("EnsureLoadBalancer, once more: %w", err)
		}
		if err := sameIngress("EnsureLoadBalancer, once more", service, status); err != nil {
			return err
		}
	}
	return nil
}

func loadBalancerOutlivesItsStatus(ctx context.Context, b *bed) error {
	balancer, service, _, err := b.balancer(ctx)
	if err != nil {
		return err
	}
	if err := b.patchService(ctx, `{"status":{"loadBalancer":null}}`, "status"); err != nil {
		return err
	}
	status, exists, err := balancer.GetLoadBalancer(ctx, clusterName, withoutStatus(service))
	switch {
	case err != nil:
		return fmt.Errorf("GetLoadBalancer of a Service without status: %w", err)
	case !exists:
		return errors.New("GetLoadBalancer of a Service without status says that there is none")
	}
	return sameIngress("GetLoadBalancer of a Service without status", service, status)
}

// loadBalancerFollowsNodes adds a Node and takes it away. An update may come before the load balancer was ensured: upstream's
// controller knows the Service first (controllers/service/controller.go of k8s.io/cloud-provider, processServiceCreateOrUpdate).
func loadBalancerFollowsNodes(ctx context.Context, b *bed) error {
	if err := b.hasBalanced(ctx); err != nil {
		return err
	}
	ensured := b.seen.succeeded("UpdateLoadBalancer", serviceName)
	m, err := b.backend(ctx)
	if err != nil {
		return err
	}
	if err := b.updated(ctx, "with a Node more", ensured+1); err != nil {
		return err
	}
	// A Node and its provider ID can be two updates: the next one is counted from here.
	b.settle(ctx, "UpdateLoadBalancer", serviceName)
	added := b.seen.succeeded("UpdateLoadBalancer", serviceName)
	if err := b.client.CoreV1().Nodes().Delete(ctx, m.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return b.updated(ctx, "with a Node less", added+1)
}

// updated waits for so many updates without error.
func (b *bed) updated(ctx context.Context, what string, count int) error {
	return b.until(ctx, "the load balancer is updated "+what, func(context.Context) error {
		if b.seen.succeeded("UpdateLoadBalancer", serviceName) >= count {
			return nil
		}
		return fmt.Errorf("last error of UpdateLoadBalancer: %w", b.seen.lastError("UpdateLoadBalancer", serviceName))
	})
}

func loadBalancerUpdateBearsStaleServices(ctx context.Context, b *bed) error {
	balancer, service, nodes, err := b.balancer(ctx)
	if err != nil {
		return err
	}
	stale := withoutStatus(service)
	if err := failedUpdate(balancer.UpdateLoadBalancer(ctx, clusterName, stale, nodes)); err != nil {
		return fmt.Errorf("UpdateLoadBalancer with a stale Service: %w", err)
	}
	status, exists, err := balancer.GetLoadBalancer(ctx, clusterName, service)
	if err != nil {
		return err
	}
	if !exists {
		return errors.New("UpdateLoadBalancer with a stale Service: the load balancer is gone")
	}
	return sameIngress("UpdateLoadBalancer with a stale Service", service, status)
}

func servicesAreNotWrittenTo(ctx context.Context, b *bed) error {
	balancer, service, nodes, err := b.balancer(ctx)
	if err != nil {
		return err
	}
	for _, s := range []*corev1.Service{service, withoutStatus(service)} {
		// What they answer is for other rules.
		_, _ = balancer.EnsureLoadBalancer(ctx, clusterName, s, nodes)
		_ = balancer.UpdateLoadBalancer(ctx, clusterName, s, nodes)
		_, _, _ = balancer.GetLoadBalancer(ctx, clusterName, s)
		_ = balancer.EnsureLoadBalancerDeleted(ctx, clusterName, s)
	}
	return b.seen.written()
}
