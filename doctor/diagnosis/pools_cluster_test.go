package diagnosis

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A pool that gives nothing is found by what its manager has said of it; a cluster that knows no pools has none.
func TestCluster_Pools(t *testing.T) {
	seen := func() *Snapshot {
		s := &Snapshot{}
		l := newLooking(s)
		l.pools(t.Context(), client(cluster.Config, nil))
		l.wg.Wait()
		return s
	}
	if s := seen(); len(s.Pools) > 0 || len(s.NotSeen) > 0 {
		t.Errorf("without a definition: %+v", s)
	}
	definitions := envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}, MaxTime: time.Minute}
	if _, err := envtest.InstallCRDs(cluster.Config, definitions); err != nil {
		t.Fatal(err)
	}
	pools := dynamic.NewForConfigOrDie(cluster.Config).
		Resource(v1alpha1.GroupVersion().WithResource("addresspools"))
	pool, err := pools.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": "AddressPool", "metadata": map[string]any{"name": "lan"},
		"spec": map[string]any{"ranges": []any{"192.0.2.0/28"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pools.Delete(context.WithoutCancel(t.Context()), "lan", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if s := seen(); len(s.Pools) != 1 || s.Pools[0].Ready != nil {
		t.Errorf("one that nobody has looked at: %+v", s.Pools)
	}
	const why = "192.0.2.4 is the InternalIP of Node/n1"
	pool.Object["status"] = map[string]any{
		"assigned": int64(0), "quarantined": int64(0), "conditions": []any{map[string]any{
			"type": "Ready", "status": "False", "reason": "PoolNotReady", "message": why,
			"lastTransitionTime": "2026-11-23T14:00:00Z", "observedGeneration": pool.GetGeneration(),
		}},
	}
	pool, err = pools.UpdateStatus(t.Context(), pool, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := brokenPools(newView(seen()))
	if len(found) != 1 || found[0].ID != finding.PoolNotReady || found[0].Object != "AddressPool/lan" ||
		found[0].Message != why {
		t.Errorf("got %+v", found)
	}
	pool.Object["spec"].(map[string]any)["disabled"] = true
	if _, err := pools.Update(t.Context(), pool, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if found := brokenPools(newView(seen())); len(found) > 0 {
		t.Errorf("it was edited since: %+v", found)
	}
	for name, p := range map[string]Pool{"disabled": {Disabled: true}, "old": {Old: true}} {
		p.Ready = &metav1.Condition{Status: metav1.ConditionFalse, Reason: finding.PoolNotReady.Kind().Reason}
		if found := brokenPools(&view{Snapshot: &Snapshot{Pools: []Pool{p}}}); len(found) > 0 {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
