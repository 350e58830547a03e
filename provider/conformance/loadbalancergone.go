package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

func loadBalancerIsDeletedWithItsService(ctx context.Context, b *bed) error {
	if err := b.hasBalanced(ctx); err != nil {
		return err
	}
	service, err := b.getService(ctx)
	if err != nil {
		return err
	}
	return firstOf(
		func() error {
			return b.client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, serviceName, metav1.DeleteOptions{})
		},
		func() error { return b.serviceGone(ctx) },
		func() error { return b.deletedLast() },
		func() error { return b.existsNot(ctx, service) },
	)
}

func loadBalancerIsDeletedWithItsType(ctx context.Context, b *bed) error {
	if err := b.hasBalanced(ctx); err != nil {
		return err
	}
	return firstOf(
		func() error { return b.patchService(ctx, `{"spec":{"type":"ClusterIP"}}`) },
		func() error { return b.cleared(ctx) },
		func() error { return b.deletedLast() },
	)
}

// deletedLast wants deletion after the last ensure, and nothing after that.
func (b *bed) deletedLast() error {
	order := b.seen.order(serviceName, "EnsureLoadBalancer", "EnsureLoadBalancerDeleted")
	if !slices.Equal(order, []string{"EnsureLoadBalancer", "EnsureLoadBalancerDeleted"}) {
		return fmt.Errorf("the finalizer went after %v: want EnsureLoadBalancerDeleted last; it is left out if "+
			"GetLoadBalancer finds nothing", order)
	}
	return nil
}

func (b *bed) existsNot(ctx context.Context, service *corev1.Service) error {
	balancer, _ := b.seen.LoadBalancer()
	_, exists, err := balancer.GetLoadBalancer(ctx, clusterName, service)
	if err == nil && exists {
		err = errors.New("GetLoadBalancer says that it exists, after its Service was deleted")
	}
	return err
}

func loadBalancerDeletionIsIdempotent(ctx context.Context, b *bed) error {
	balancer, service, _, err := b.balancer(ctx)
	if err != nil {
		return err
	}
	never := service.DeepCopy()
	never.Name, never.UID = "never-ensured", "00000000-0000-4000-8000-000000000000"
	for _, s := range []*corev1.Service{service, service, never} {
		if err := b.deleted(ctx, balancer, s); err != nil {
			return fmt.Errorf("EnsureLoadBalancerDeleted of one that is there, of the same again, and of one that never was: "+
				"%w", err)
		}
	}
	return nil
}

// deleted calls it as upstream's controller does, which comes again after a RetryError.
func (b *bed) deleted(ctx context.Context, balancer cloudprovider.LoadBalancer, service *corev1.Service) error {
	var final error
	err := b.until(ctx, "it is deleted", func(ctx context.Context) error {
		err := balancer.EnsureLoadBalancerDeleted(ctx, clusterName, service)
		var later *api.RetryError
		if errors.As(err, &later) {
			return err
		}
		final = err
		return nil
	})
	return cmp.Or(err, final)
}

func loadBalancerIsNotLostInAFault(ctx context.Context, b *bed) error {
	balancer, service, _, err := b.balancer(ctx)
	if err != nil {
		return err
	}
	if _, err := b.anyFault(); err != nil {
		return err
	}
	if _, exists, err := balancer.GetLoadBalancer(ctx, clusterName, service); err == nil && !exists {
		return errors.New("GetLoadBalancer says during a fault that there is none: want an error")
	}
	return nil
}
