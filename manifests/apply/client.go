package apply

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/ssa"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// newManager returns the engine of server-side apply. It does not ask the API server which kinds there are: ours are built in, and a
// control plane that is just coming up has better things to do. Others are asked for, which a newer ccmadm has applied.
func newManager(cfg *rest.Config, force bool) (*ssa.ResourceManager, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // the server's priority and fairness is the better limit
	cfg.WarningHandlerWithContext = rest.NoWarnings{}
	http, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	server, err := apiutil.NewDynamicRESTMapper(cfg, http)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	c, err := client.New(cfg, client.Options{HTTPClient: http, Mapper: mapper{kinds(), server}})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if !force {
		c = polite{c}
	}
	c = &certain{Client: c}
	manager := ssa.NewResourceManager(c, nil, ssa.Owner{Field: v1alpha1.FieldManager, Group: v1alpha1.Prefix})
	manager.SetConcurrency(8)
	return manager, nil
}

// mapper asks the API server for kinds that are not ours alone.
type mapper struct {
	meta.RESTMapper

	server meta.RESTMapper
}

func (m mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if found, err := m.RESTMapper.RESTMapping(kind, versions...); err == nil {
		return found, nil
	}
	return m.server.RESTMapping(kind, versions...)
}

// kinds maps what this package renders.
func kinds() meta.RESTMapper {
	crd := definition()
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{ // a kind is found without its version in these only
		corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, rbacv1.SchemeGroupVersion, admissionv1.SchemeGroupVersion,
		crd.GroupVersion(),
	})
	for _, kind := range []string{"ConfigMap", "Secret", "ServiceAccount"} {
		m.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"DaemonSet", "Deployment"} {
		m.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Role", "RoleBinding"} {
		m.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		m.Add(rbacv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		m.Add(admissionv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	m.Add(crd, meta.RESTScopeRoot)
	return m
}

func definition() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
}

// polite is a client whose server-side apply does not take fields away from others. The engine always would.
type polite struct{ client.Client }

func (p polite) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return p.Client.Patch(ctx, obj, patch, append(opts, unforced{})...)
}

type unforced struct{}

func (unforced) ApplyToPatch(opts *client.PatchOptions) { opts.Force = nil }
