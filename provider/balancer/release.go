package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Release gives back what a Balancer has held, where load balancers are somebody else's from now on: finalizers and
// conditions of Services, so that these can be deleted, and then the claims, so that no agent announces them. Status
// and annotation stay, so that whoever comes next may keep the addresses. Upstream's controller, in this program, has
// given its finalizer to every Service without a class, those of somebody else included: nobody else would remove it. On
// an error, what is left is for the next call.
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
		if c, ok := parseClaim(&claims.Items[i]); ok && c.live() {
			for _, owner := range c.owners {
				owners[owner] = true
			}
		}
	}
	var errs []error
	for i := range services.Items {
		service := &services.Items[i]
		if owners[nameOf(service)] || held(service) || finalized(service) {
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

// held says that a Balancer has spoken of the Service, or that nobody else serves it.
func held(service *corev1.Service) bool {
	class := service.Spec.LoadBalancerClass
	return condition(service) != nil || class != nil && *class == v1alpha1.LoadBalancerClass
}

// finalized says that this program, under whatever name it runs, has put the finalizer there. One that another program
// has put there is that one's to remove.
func finalized(service *corev1.Service) bool {
	program, _, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/") // what the API server calls a writer
	for _, entry := range service.ManagedFields {
		var said struct {
			Metadata struct {
				Finalizers map[string]any `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if entry.Manager != program || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &said) != nil {
			continue
		}
		if _, there := said.Metadata.Finalizers["v:"+strconv.Quote(helpers.LoadBalancerCleanupFinalizer)]; there {
			return true
		}
	}
	return false
}

func releaseService(ctx context.Context, client kubernetes.Interface, service *corev1.Service) error {
	after := service.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(finalizer string) bool {
		return finalizer == helpers.LoadBalancerCleanupFinalizer
	})
	meta.RemoveStatusCondition(&after.Status.Conditions, v1alpha1.LoadBalancerReady)
	patch, err := patchOf(service, after)
	if err != nil || patch == nil {
		return err
	}
	_, err = client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release Service/%s: %w", nameOf(service), err)
	}
	klog.InfoS("Released a Service", "service", nameOf(service))
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
