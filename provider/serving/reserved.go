package serving

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// reserved is what others than Nodes have: the certificates come from the CA that clients of the API server trust.
type reserved struct {
	services  []netip.Prefix
	endpoints sets.Set[string] // names and addresses of API servers; control planes may have them
	names     sets.Set[string] // of those that were asked for: a Service or a webhook is reached by them
}

// endpoint reports whether an API server is reached by the name. The certificate of one may have *.DOMAIN.
func (r *reserved) endpoint(name string) bool {
	return r.endpoints.Has(name) || r.endpoints.Has("*"+strings.TrimPrefix(name, label(name)))
}

// reserved reads the ranges of Services, how clients reach the API server, and which of the names are those of Services and
// webhooks. An error is no answer: nothing is approved then.
func (a *Approver) reserved(ctx context.Context, names []string) (reserved, error) {
	r := reserved{endpoints: sets.New(canonical(a.Endpoint)), names: sets.New[string]()}
	for _, read := range []func(context.Context, *reserved) error{a.serviceRanges, a.clusterInfo, a.kubeadmConfig, a.presented} {
		if err := read(ctx, &r); err != nil {
			return r, err
		}
	}
	for _, name := range names {
		is, err := a.isService(ctx, name)
		if err != nil {
			return r, err
		}
		if is {
			r.names.Insert(name)
		}
	}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, ".") }) {
		return r, nil // no webhook is asked for
	}
	return r, a.webhooks(ctx, &r)
}

func (a *Approver) serviceRanges(ctx context.Context, r *reserved) error {
	ranges, err := a.Client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // an API server before 1.33 has none
	case err != nil:
		return fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	for _, service := range ranges.Items {
		for _, text := range service.Spec.CIDRs {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return fmt.Errorf("read ServiceCIDR/%s: %w", service.Name, err)
			}
			r.services = append(r.services, prefix.Masked())
		}
	}
	return nil
}

// presented adds what is in the certificate that the API server serves with.
func (a *Approver) presented(ctx context.Context, r *reserved) error {
	if a.APIServerNames == nil {
		return nil
	}
	names, err := a.APIServerNames(ctx)
	if err != nil {
		return fmt.Errorf("read the certificate of the API server: %w", err)
	}
	for _, name := range names {
		r.endpoints.Insert(canonical(name))
	}
	return nil
}

// isService reports whether pods may reach a Service by the name: NAME in its own namespace, NAME.NAMESPACE in others.
func (a *Approver) isService(ctx context.Context, name string) (bool, error) {
	name, namespace, _ := strings.Cut(name, ".")
	if strings.Contains(namespace, ".") {
		return false, nil // inCluster knows those with .svc
	}
	services, err := a.Client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("list Services of name %s: %w", name, err)
	}
	return len(services.Items) > 0, nil
}

// webhooks adds the hosts of webhooks that are no Services: the API server trusts their certificates by caBundle, which may
// be the cluster's CA.
func (a *Approver) webhooks(ctx context.Context, r *reserved) error {
	add := func(c admissionv1.WebhookClientConfig) {
		if c.URL == nil {
			return
		}
		if u, err := url.Parse(*c.URL); err == nil {
			r.names.Insert(canonical(u.Hostname()))
		}
	}
	admission := a.Client.AdmissionregistrationV1()
	validating, err := admission.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list ValidatingWebhookConfigurations: %w", err)
	}
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			add(w.ClientConfig)
		}
	}
	mutating, err := admission.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list MutatingWebhookConfigurations: %w", err)
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			add(w.ClientConfig)
		}
	}
	return nil
}
