package apply

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

const (
	widgetDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.newer.example}
spec:
  group: newer.example
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	widget = `
apiVersion: newer.example/v1
kind: Widget
metadata: {name: w1, namespace: kube-system, labels: {app.kubernetes.io/managed-by: ccmadm}}
`
	// downService is of an API server that does not answer.
	downService = `
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.down.example}
spec:
  {group: down.example, version: v1, groupPriorityMinimum: 1, versionPriority: 1, service: {namespace: kube-system, name: none}}
`
)

// create makes an object of a cluster for a test.
func create(t *testing.T, c *Cluster, text string) {
	t.Helper()
	o := &manifests.Object{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	if err := c.manager.Client().Create(t.Context(), o.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := client.IgnoreNotFound(c.manager.Client().Delete(ctx, o)); err != nil {
			t.Error(err)
		}
	})
}

// noted writes IDs into the list of what was applied, as a newer ccmadm does.
func noted(t *testing.T, set Set, ids ...string) {
	t.Helper()
	list, err := configMaps().Get(t.Context(), v1alpha1.AppliedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		list.Data[id] = string(set)
	}
	if _, err := configMaps().Update(t.Context(), list, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager}); err != nil {
		t.Fatal(err)
	}
}

// refusesDiscovery is the cluster, but does not say what it serves.
func refusesDiscovery() *rest.Config {
	cfg := rest.CopyConfig(cluster.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/apis" {
				return nil, errors.New("no discovery today")
			}
			return next.RoundTrip(req)
		})
	})
	return cfg
}

// What a newer ccmadm has applied is deleted as well, and a kind that is gone keeps nothing from being deleted.
func TestCluster_Remove_NewerKinds(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	create(t, c, widgetDefinition)
	awaitGroup(t, "newer.example")
	create(t, c, widget)
	apply(t, c, Record, mustRecord(t))
	noted(t, Record, "kube-system_w1_newer.example_Widget", "kube-system_w1_gone.example_Widget", "_x_newer.example_Gadget")

	p, out := printer(t, cluster.Config)
	if _, err := p.Remove(t.Context()); err != nil || !strings.Contains(out.String(), "would delete Widget/kube-system/w1\n") {
		t.Errorf("%v in\n%s", err, out)
	}
	changes, err := c.Remove(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"Widget/kube-system/w1": "deleted", listSubject: "deleted", "ConfigMap/kube-system/ccmadm-config": "deleted"}
	got := map[string]string{}
	for _, change := range changes {
		if _, is := want[change.Subject]; is || !strings.Contains(change.Subject, "ccmadm:record") {
			got[change.Subject] = change.Action
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if left := versions(t, mustRecord(t)); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}

// awaitGroup waits until the API server lists a group.
func awaitGroup(t *testing.T, name string) {
	t.Helper()
	api := kubernetes.NewForConfigOrDie(cluster.Config).Discovery()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		groups, err := api.ServerGroups()
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("group %s is not listed: %v", name, err)
		}
		if slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == name }) {
			return
		}
	}
}

// Where the API server cannot say whether there is a kind, nothing is deleted or applied.
func TestCluster_NewerKinds_Unknown(t *testing.T) {
	c := newCluster(t, cluster.Config, false)
	apply(t, c, Record, mustRecord(t))
	before := versions(t, mustRecord(t))
	create(t, c, downService)
	awaitGroup(t, "down.example")
	// A definition that is not served.
	create(t, c, strings.NewReplacer("newer.example", "later.example", "served: true", "served: false").Replace(widgetDefinition))
	for _, tt := range []struct {
		name, id string
		cfg      *rest.Config
		want     []string
	}{
		{
			"the group's server does not answer", "kube-system_w1_down.example_Widget", cluster.Config,
			[]string{"delete Widget.down.example w1: the API server cannot be asked for its kind: "},
		},
		{
			"no discovery", "kube-system_w1_gone.example_Widget", refusesDiscovery(),
			[]string{"delete Widget.gone.example w1: the API server cannot be asked for its kind: ", "no discovery today"},
		},
		{
			"a definition that is not served", "kube-system_w1_later.example_Widget", cluster.Config,
			[]string{"delete Widget.later.example w1: the API server cannot be asked for its kind: ", "CustomResourceDefinition/widgets.later.example"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			noted(t, Record, tt.id)
			list := listed(t, v1alpha1.AppliedName)
			asked := newClusterOf(t, tt.cfg)
			p, _ := printer(t, tt.cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, removed := asked.Remove(ctx)
			_, shown := p.Remove(ctx)
			_, written := asked.Apply(ctx, Record, mustRecord(t)[:1])
			for what, err := range map[string]error{"Remove": removed, "its dry run": shown, "Apply": written} {
				known := new(finding.Error)
				if !errors.As(err, &known) || !strings.Contains(known.Hint, "a newer ccmadm applied it") {
					t.Errorf("%s: got %v", what, err)
					continue
				}
				for _, want := range tt.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: got %v, want %q", what, err, want)
					}
				}
			}
			if diff := cmp.Diff(list, listed(t, v1alpha1.AppliedName)); diff != "" {
				t.Errorf("the list was written (-before +after):\n%s", diff)
			}
			forget(t, tt.id)
		})
	}
	after := versions(t, mustRecord(t))
	maps.DeleteFunc(before, func(name, _ string) bool { return strings.HasSuffix(name, v1alpha1.AppliedName) })
	maps.DeleteFunc(after, func(name, _ string) bool { return strings.HasSuffix(name, v1alpha1.AppliedName) })
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something was written (-before +after):\n%s", diff)
	}
}

func newClusterOf(t *testing.T, cfg *rest.Config) *Cluster {
	t.Helper()
	c, err := NewCluster(cfg, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// forget takes an ID out of the list.
func forget(t *testing.T, id string) {
	t.Helper()
	list, err := configMaps().Get(t.Context(), v1alpha1.AppliedName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delete(list.Data, id)
	if _, err := configMaps().Update(t.Context(), list, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager}); err != nil {
		t.Fatal(err)
	}
}
