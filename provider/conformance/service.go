package conformance

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// serviceName is that of the one Service a rule makes.
const serviceName = "conformance"

// service makes a Service that wants a load balancer.
func (b *bed) service(ctx context.Context) error {
	_, err := b.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: serviceName},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": serviceName},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Service/default/%s: %w", serviceName, err)
	}
	return nil
}

func (b *bed) getService(ctx context.Context) (*corev1.Service, error) {
	return b.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, serviceName, metav1.GetOptions{})
}

// balanced makes a Service, and waits until it has a load balancer with an address. A provider may publish addresses by
// itself, before the service controller has come to the Service.
func (b *bed) balanced(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	return b.until(ctx, "the Service has an address", func(ctx context.Context) error {
		service, err := b.getService(ctx)
		if err == nil && len(service.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("its status has no ingress, last error of EnsureLoadBalancer: "+
				"%w", b.seen.lastError("EnsureLoadBalancer", serviceName))
		}
		if err == nil && len(b.seen.order(serviceName, "EnsureLoadBalancer")) == 0 {
			err = errors.New("EnsureLoadBalancer was not called yet")
		}
		return err
	})
}

// patchService changes the Service, or its status, and nobody is asked about conflicts.
func (b *bed) patchService(ctx context.Context, patch string, subresource ...string) error {
	_, err := b.client.CoreV1().Services(metav1.NamespaceDefault).Patch(ctx, serviceName,
		types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	return err
}

// cleared waits until the Service is an ordinary one.
func (b *bed) cleared(ctx context.Context) error {
	return b.until(ctx, "the status of the Service is cleared", func(ctx context.Context) error {
		service, err := b.getService(ctx)
		switch {
		case err != nil:
			return err
		case len(service.Finalizers) > 0:
			return fmt.Errorf("it has finalizers %v", service.Finalizers)
		case len(service.Status.LoadBalancer.Ingress) > 0:
			return fmt.Errorf("it has ingress %v", service.Status.LoadBalancer.Ingress)
		}
		return nil
	})
}

// serviceGone waits until the Service is deleted.
func (b *bed) serviceGone(ctx context.Context) error {
	return b.until(ctx, "the Service is deleted", func(ctx context.Context) error {
		service, err := b.getService(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("it has finalizers %v", service.Finalizers)
		}
		return err
	})
}

// removeServices does so even where a broken provider would keep its finalizer for ever.
func (b *bed) removeServices(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	err := b.client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, serviceName, metav1.DeleteOptions{})
	if err == nil {
		err = b.patchService(ctx, `{"metadata":{"finalizers":null}}`)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
