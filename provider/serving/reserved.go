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
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// reserved is what others than Nodes have: the certificates come from the CA that clients of the API server trust.
type reserved struct {
	services  []netip.Prefix
	endpoints sets.Set[string] // names and addresses of API servers; control planes may have them
	names     sets.Set[string] // of those that were asked for: a Service or a webhook is reached by them
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
		is, err := a.isService(ctx, strings.ToLower(name))
		if err != nil {
			return r, err
		}
		if is {
			r.names.Insert(strings.ToLower(name))
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
		prefixes, err := ParseRanges(service.Spec.CIDRs)
		if err != nil {
			return fmt.Errorf("read ServiceCIDR/%s: %w", service.Name, err)
		}
		r.services = append(r.services, prefixes...)
	}
	return nil
}

const (
	// clusterInfo is the ConfigMap in which kubeadm says where the API server is reached.
	clusterInfo = "cluster-info"
	// kubeadmConfig is the one with kubeadm's ClusterConfiguration.
	kubeadmConfig = "kubeadm-config"
)

// configMap returns the data of a ConfigMap of kubeadm's; nil: there is none, as in a cluster that kubeadm did not make.
func (a *Approver) configMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	object, err := a.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get ConfigMap/%s/%s: %w", namespace, name, err)
	}
	return object.Data, nil
}

func (a *Approver) clusterInfo(ctx context.Context, r *reserved) error {
	data, err := a.configMap(ctx, metav1.NamespacePublic, clusterInfo)
	if err != nil || data == nil {
		return err
	}
	config, err := clientcmd.Load([]byte(data["kubeconfig"]))
	if err != nil {
		return fmt.Errorf("read ConfigMap/%s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
	}
	for _, cluster := range config.Clusters {
		u, err := url.Parse(cluster.Server)
		if err != nil {
			return fmt.Errorf("read ConfigMap/%s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
		}
		r.endpoints.Insert(canonical(u.Hostname()))
	}
	return nil
}

// kubeadmConfig adds what the certificates of all API servers have, of machines that do not answer now, too.
func (a *Approver) kubeadmConfig(ctx context.Context, r *reserved) error {
	data, err := a.configMap(ctx, metav1.NamespaceSystem, kubeadmConfig)
	if err != nil || data == nil {
		return err
	}
	var cluster struct {
		ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
		APIServer            struct {
			CertSANs []string `json:"certSANs"`
		} `json:"apiServer"`
	}
	if err := yaml.Unmarshal([]byte(data["ClusterConfiguration"]), &cluster); err != nil {
		return fmt.Errorf("read ConfigMap/%s/%s: %w", metav1.NamespaceSystem, kubeadmConfig, err)
	}
	r.endpoints.Insert(canonical(hostOf(cluster.ControlPlaneEndpoint)))
	for _, name := range cluster.APIServer.CertSANs {
		r.endpoints.Insert(canonical(name))
	}
	return nil
}

// hostOf is that of HOST or HOST:PORT.
func hostOf(endpoint string) string {
	u, err := url.Parse("https://" + endpoint)
	if err != nil {
		return endpoint
	}
	return u.Hostname()
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

// isService says whether pods may reach a Service by the name: NAME in its own namespace, NAME.NAMESPACE in others.
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
