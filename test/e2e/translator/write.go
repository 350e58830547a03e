package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// poolAnnotation is where MetalLB says from which pool a Service has its address.
const poolAnnotation = "metallb.universe.tf/ip-allocated-from-pool"

// nameServicePools annotates Services as soon as ccmadm has claimed an address for them, before it is published.
func (t *translator) nameServicePools(ctx context.Context) error {
	claims, err := t.kubernetes.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{
		LabelSelector: networkingv1.LabelManagedBy + "=" + v1alpha1.ClaimManager,
	})
	if err != nil {
		return fmt.Errorf("list IPAddresses: %w", err)
	}
	var errs []error
	for _, c := range claims.Items {
		key, pool, owner := "Service of "+c.Name, c.Annotations[v1alpha1.ClaimPoolAnnotation], c.Spec.ParentRef
		if owner == nil || t.written[key] == owner.Namespace+"/"+owner.Name+" "+pool {
			continue
		}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, poolAnnotation, pool)
		services := t.kubernetes.CoreV1().Services(owner.Namespace)
		_, err := services.Patch(ctx, owner.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("annotate Service/%s/%s: %w", owner.Namespace, owner.Name, err))
			continue
		}
		t.written[key] = owner.Namespace + "/" + owner.Name + " " + pool
	}
	return errors.Join(errs...)
}

// writer is what both clients of ours can do.
type writer[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Update(ctx context.Context, object T, options metav1.UpdateOptions) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// write writes what was not written like this before, and deletes what is not wanted any more.
func write[T metav1.Object](ctx context.Context, t *translator, kind string, client writer[T], want []T) error {
	errs := []error{deleteGone(ctx, t, kind, client, want)}
	for _, object := range want {
		key := kind + "/" + object.GetName()
		content, err := json.Marshal(object)
		if err == nil && t.written[key] != string(content) {
			err = put(ctx, client, object)
			if err == nil {
				t.written[key] = string(content)
				t.say(key + " " + string(content))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("write %s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// deleteGone deletes what was written and is not wanted any more.
func deleteGone[T metav1.Object](ctx context.Context, t *translator, kind string, client writer[T], want []T) error {
	wanted := map[string]bool{}
	for _, object := range want {
		wanted[kind+"/"+object.GetName()] = true
	}
	var errs []error
	for key := range t.written {
		if !strings.HasPrefix(key, kind+"/") || wanted[key] {
			continue
		}
		err := client.Delete(ctx, strings.TrimPrefix(key, kind+"/"), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("delete %s: %w", key, err))
			continue
		}
		delete(t.written, key)
		t.say(key + " deleted")
	}
	return errors.Join(errs...)
}

// deletePools deletes those of pools that are gone.
func (t *translator) deletePools(ctx context.Context, from source) error {
	var left []*v1alpha1.AddressPool
	for _, p := range from.pools {
		left = append(left, &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: p.Name}})
	}
	return deleteGone(ctx, t, "AddressPool", t.ours.AddressPools, left)
}

func put[T metav1.Object](ctx context.Context, client writer[T], object T) error {
	before, err := client.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, object, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	object.SetResourceVersion(before.GetResourceVersion())
	_, err = client.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

func (t *translator) writePasswords(ctx context.Context, want map[string]string) error {
	if len(want) == 0 {
		return nil
	}
	secrets := t.kubernetes.CoreV1().Secrets(v1alpha1.Namespace)
	secret, err := secrets.Get(ctx, v1alpha1.BGPSecretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BGPSecretName, Namespace: v1alpha1.Namespace}, StringData: want,
		}
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
	case err == nil:
		have := map[string]string{}
		for key, value := range secret.Data {
			have[key] = string(value)
		}
		if maps.Equal(have, want) {
			return nil
		}
		secret.Data, secret.StringData = nil, want
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write Secret/%s/%s: %w", v1alpha1.Namespace, v1alpha1.BGPSecretName, err)
	}
	return nil
}
