package serving

import (
	"maps"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// A Node whose deletion no watch has shown is forgotten, too, also where another one has registered with its name.
func TestPolicy_ForgetsNodes(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", UID: "1"}}
	node.Spec.ProviderID = "aws:///a/i-1"
	source.Add(node)
	informer := cache.NewSharedIndexInformer(source, &corev1.Node{}, 0, nil)
	p := &Policy{Now: time.Now}
	if err := p.Follow(informer); err != nil {
		t.Fatal(err)
	}
	go informer.RunWithContext(t.Context())
	wait := func(want ...types.UID) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			p.mu.Lock()
			got := slices.Sorted(maps.Keys(p.seen))
			p.mu.Unlock()
			if slices.Equal(got, want) {
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("it remembers Nodes %v, want %v", got, want)
			}
		}
	}
	wait("1")
	again := node.DeepCopy()
	again.UID = "2"
	source.DeleteDropWatch(node)
	source.AddDropWatch(again)
	source.ResetWatch()
	wait("2")
	source.DeleteDropWatch(again)
	source.ResetWatch()
	wait()
}

// A policy that is asked about no Node, in whatever way, keeps no kubelet from anything.
func TestMatchesNodes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*admissionv1.NamedRuleWithOperations)
		want   bool
	}{
		"as ccmadm makes it":    {func(*admissionv1.NamedRuleWithOperations) {}, true},
		"of all scopes":         {func(r *admissionv1.NamedRuleWithOperations) { r.Scope = new(admissionv1.AllScopes) }, true},
		"of another group":      {func(r *admissionv1.NamedRuleWithOperations) { r.APIGroups = []string{"example.com"} }, false},
		"of another version":    {func(r *admissionv1.NamedRuleWithOperations) { r.APIVersions = []string{"v2"} }, false},
		"of what has namespace": {func(r *admissionv1.NamedRuleWithOperations) { r.Scope = new(admissionv1.NamespacedScope) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			rule := func(resource string, operation admissionv1.OperationType) (r admissionv1.NamedRuleWithOperations) {
				r.APIGroups, r.APIVersions, r.Resources = []string{""}, []string{"v1"}, []string{resource}
				r.Operations = []admissionv1.OperationType{operation}
				c.change(&r)
				return r
			}
			if got := matchesNodes(&admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{
				rule("nodes", admissionv1.Create), rule("nodes/status", admissionv1.Update),
			}}); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
