package balancer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// Release gives back what a Balancer has held, where load balancers are another program's from now on: finalizers and
// conditions of Services, so that these can be deleted, and then the claims, so that no agent announces them. Status
// and annotation stay, so that the next provider may keep the addresses, and IPAMs of AddressPools keep them. On an error, what is left
// is for the next call.
func Release(ctx context.Context, client kubernetes.Interface) error {
	claims, err := client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: ourClaims})
	if apierrors.IsNotFound(err) { // the API server does not know the resource
		claims, err = &networkingv1.IPAddressList{}, nil
	}
	if err != nil {
		return fmt.Errorf("list IPAddresses: %w", err)
	}
	services, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	owners := map[types.NamespacedName]bool{}
	for i := range claims.Items {
		if c, ok := allocator.ParseClaim(&claims.Items[i]); ok && c.Live() {
			for _, owner := range c.Owners {
				owners[owner] = true
			}
		}
	}
	var errs []error
	for i := range services.Items {
		service := &services.Items[i]
		if owners[allocator.NameOf(service)] || held(service) {
			errs = append(errs, releaseService(ctx, client, service))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err // the claims say whose finalizers are ours
	}
	for i := range claims.Items {
		errs = append(errs, releaseClaim(ctx, client, &claims.Items[i]))
	}
	return errors.Join(errs...)
}

// held says that a Balancer has spoken of the Service, or that no other serves it.
func held(service *corev1.Service) bool {
	class := service.Spec.LoadBalancerClass
	return allocator.Condition(service) != nil || class != nil && *class == v1alpha1.LoadBalancerClass
}

func releaseService(ctx context.Context, client kubernetes.Interface, service *corev1.Service) error {
	after := service.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(finalizer string) bool {
		return finalizer == helpers.LoadBalancerCleanupFinalizer
	})
	meta.RemoveStatusCondition(&after.Status.Conditions, v1alpha1.LoadBalancerReady)
	meta.RemoveStatusCondition(&after.Status.Conditions, v1alpha1.AskedCondition)
	patch, err := patchOf(service, after)
	if err != nil || patch == nil {
		return err
	}
	_, err = client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release Service/%s: %w", allocator.NameOf(service), err)
	}
	klog.InfoS("Released a Service", "service", allocator.NameOf(service))
	return nil
}

func releaseClaim(ctx context.Context, client kubernetes.Interface, claim *networkingv1.IPAddress) error {
	err := client.NetworkingV1().IPAddresses().Delete(ctx, claim.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &claim.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete IPAddress/%s: %w", claim.Name, err)
	}
	klog.InfoS("Released an address", "address", claim.Name)
	return nil
}
