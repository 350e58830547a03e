package e2e

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// Everything that the catalogue renders, in every mode, is applied to a real API server of the version: nothing is
// rejected, warned of or dropped, a second time changes nothing, and every RBAC rule names what there is.
func TestCatalogue_Apply(t *testing.T) {
	t.Parallel()
	cluster, err := manifeststest.StartVersion(*kubernetesMinor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := newCatalogue(t, cluster.Config)
	applied := 0
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range p.Modes {
			for _, full := range []bool{false, true} {
				v := manifeststest.Values(p, mode, "v"+*kubernetesMinor+".0", full)
				t.Run(fmt.Sprintf("%s/%s/full=%t", name, mode, full), func(t *testing.T) { applied += c.check(t, p, v) })
			}
		}
	}
	t.Logf("%d objects of %d profiles applied to Kubernetes %s", applied, len(templates.Names()), *kubernetesMinor)
}

// catalogue is a client with a memory for warnings.
type catalogue struct {
	cluster  *apply.Cluster
	client   client.Client
	warnings *warnings
	known    map[string]metav1.APIResource // by group/resource
	groups   []string
}

type warnings struct{ list []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.list = append(w.list, text) }

func newCatalogue(t *testing.T, config *rest.Config) *catalogue {
	t.Helper()
	c := &catalogue{warnings: &warnings{}, known: map[string]metav1.APIResource{}}
	config = rest.CopyConfig(config)
	config.WarningHandler = c.warnings
	config.QPS = -1
	var err error
	if c.cluster, err = apply.NewCluster(config, true); err != nil {
		t.Fatal(err)
	}
	if c.client, err = client.New(config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, lists, err := finder.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		c.groups = append(c.groups, gv.Group)
		for _, r := range list.APIResources {
			c.known[gv.Group+"/"+r.Name] = r
		}
	}
	return c
}

// check applies what is rendered from v, and takes it away again.
func (c *catalogue) check(t *testing.T, p *templates.Profile, v templates.Values) int {
	objects := rendered(t, p, v)
	for range 2 { // the second time nothing changes
		if _, err := c.cluster.Apply(t.Context(), "catalogue", objects); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := c.cluster.Apply(t.Context(), "catalogue", objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		if change.Action != "unchanged" {
			t.Errorf("applied again: %s", change)
		}
	}
	for _, o := range objects {
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(o.GroupVersionKind())
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(o), stored); err != nil {
			t.Fatal(err)
		}
		for _, path := range lost(o.Object, stored.Object, o.GetKind()) {
			t.Errorf("%s %s: the API server has dropped or changed %s", o.GetKind(), o.GetName(), path)
		}
		c.checkRules(t, o)
	}
	if v.Mode == templates.StaticPod {
		c.checkStaticPod(t, p, v)
	}
	for _, text := range c.warnings.list {
		t.Errorf("the API server warns: %s", text)
	}
	c.warnings.list = nil
	return len(objects)
}

func rendered(t *testing.T, p *templates.Profile, v templates.Values) []*manifests.Object {
	t.Helper()
	objects, err := manifests.RBAC(p, v)
	if err != nil {
		t.Fatal(err)
	}
	if files := manifeststest.Files(p, v); len(files) > 0 {
		secret, err := manifests.CloudConfigSecret(p, files)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, secret...)
	}
	workload, err := manifests.Addon(p, v)
	if err != nil {
		t.Fatal(err)
	}
	return append(objects, workload...)
}

// checkStaticPod asks the API server, whose validation is the kubelet's as well, and looks for references to other
// objects, which the kubelet refuses since 1.34.
func (c *catalogue) checkStaticPod(t *testing.T, p *templates.Profile, v templates.Values) {
	data, err := manifests.StaticPod(p, v)
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(data, &pod.Object); err != nil {
		t.Fatal(err)
	}
	stored := pod.DeepCopy()
	if err := c.client.Create(t.Context(), stored, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
		t.Errorf("static pod: %v", err)
	}
	for _, path := range lost(pod.Object, stored.Object, "Pod") {
		t.Errorf("static pod: the API server has dropped or changed %s", path)
	}
	for _, word := range []string{"serviceAccount", "secret", "configMap", "envFrom", "resourceClaims", "persistentVolumeClaim"} {
		if strings.Contains(string(data), word+":") || strings.Contains(string(data), word+"KeyRef") {
			t.Errorf("static pod refers to an object of the API: %s", word)
		}
	}
}

// checkRules finds RBAC rules for resources, or verbs on them, that the API server does not have. Groups that no API
// server has by itself are those of operators that the provider works with.
func (c *catalogue) checkRules(t *testing.T, o *manifests.Object) {
	rules, _, err := unstructured.NestedSlice(o.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		field := func(name string) []string {
			list, _, err := unstructured.NestedStringSlice(rule.(map[string]any), name)
			if err != nil {
				t.Fatal(err)
			}
			return list
		}
		for _, group := range field("apiGroups") {
			if !slices.Contains(c.groups, group) {
				if !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") {
					t.Errorf("%s: there is no API group %q", o.GetName(), group)
				}
				continue
			}
			for _, resource := range field("resources") {
				known, ok := c.known[path.Join(group, resource)]
				if group == "" {
					known, ok = c.known["/"+resource]
				}
				if !ok {
					t.Errorf("%s: API group %q has no %s", o.GetName(), group, resource)
					continue
				}
				for _, verb := range field("verbs") {
					if !slices.Contains(known.Verbs, verb) {
						t.Errorf("%s: %s %s: the API server knows only %v", o.GetName(), verb, resource, known.Verbs)
					}
				}
			}
		}
	}
}

// lost lists what is in ours and not the same in theirs, which may have more.
func lost(ours, theirs any, at string) []string {
	switch o := ours.(type) {
	case map[string]any:
		t, ok := theirs.(map[string]any)
		if !ok {
			return []string{at}
		}
		var list []string
		for key, value := range o {
			list = append(list, lost(value, t[key], at+"."+key)...)
		}
		return list
	case []any:
		t, ok := theirs.([]any)
		if !ok || len(t) != len(o) {
			return []string{at}
		}
		var list []string
		for i := range o {
			list = append(list, lost(o[i], t[i], fmt.Sprintf("%s[%d]", at, i))...)
		}
		return list
	case nil:
		return nil
	default:
		if fmt.Sprint(ours) != fmt.Sprint(theirs) {
			return []string{fmt.Sprintf("%s: %v became %v", at, ours, theirs)}
		}
		return nil
	}
}
