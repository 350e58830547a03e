package nodes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// What /metrics shows after a question, a refusal and a deletion.
func TestMetrics(t *testing.T) {
	s := newSite(t, 30)
	s.metrics.watch(cache.NewStore(cache.MetaNamespaceKeyFunc), time.Now)
	s.metrics.register()
	s.metrics.match(string(inventory.ByName))
	s.metrics.rejected.WithLabelValues(string(inventory.OlderSerial)).Inc()
	s.metrics.called("InstanceExists", time.Now(), nil)
	s.runFor(t, 15*time.Minute, lists(30, 3), 3)

	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			words := []string{family.GetName()}
			for _, label := range metric.GetLabel() {
				words = append(words, label.GetValue())
			}
			got[strings.Join(words, " ")] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	for _, name := range []string{"ccmadm_onprem_nodes_uninitialized", "ccmadm_onprem_node_uninitialized_seconds"} {
		if value, there := got[name]; !there || value != 0 {
			t.Errorf("%s is %v (there: %t), want 0", name, value, there)
		}
	}
	for name, atLeast := range map[string]float64{
		"ccmadm_onprem_inventory_matches_total name":            1,
		"ccmadm_onprem_inventory_rejected_total OlderSerial":    1,
		"ccmadm_onprem_call_duration_seconds InstanceExists ok": 1,
		"ccmadm_onprem_deletion_refused_total StillTalking":     10,
		"ccmadm_onprem_deletion_refused_total Announced":        10,
		"ccmadm_onprem_deletions_total":                         1,
		"ccmadm_onprem_inventory_age_seconds":                   5, // since the last reading of runFor
	} {
		if got[name] < atLeast {
			t.Errorf("%s is %v, want %v or more", name, got[name], atLeast)
		}
	}
}

// The time begins when the manager sees the taint, and ends with it: a Node's age says nothing.
func TestMetrics_Uninitialized(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	w := &waiting{nodes: store, now: func() time.Time { return now }, since: map[types.UID]time.Time{}}
	node := func(name string, taints ...corev1.Taint) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	tainted := corev1.Taint{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}
	for _, step := range []struct {
		after   time.Duration
		nodes   []*corev1.Node
		count   int
		longest time.Duration
	}{
		{0, []*corev1.Node{node("a"), node("b", tainted)}, 1, 0},
		{time.Minute, []*corev1.Node{node("a"), node("b", tainted), node("c", tainted)}, 2, time.Minute},
		{time.Minute, []*corev1.Node{node("a"), node("b"), node("c", tainted)}, 1, time.Minute},
		{time.Minute, []*corev1.Node{node("a"), node("b"), node("c")}, 0, 0},
		{time.Minute, []*corev1.Node{node("b", tainted)}, 1, 0},
	} {
		now = now.Add(step.after)
		var list []any
		for _, n := range step.nodes {
			list = append(list, n)
		}
		if err := store.Replace(list, ""); err != nil {
			t.Fatal(err)
		}
		if count, longest := w.look(); count != step.count || longest != step.longest {
			t.Errorf("%s: %d for %s, want %d for %s", now, count, longest, step.count, step.longest)
		}
	}
}

// The outage of a machine that the inventory lists, of one that was adopted, or of another provider's is no deletion that is refused.
func TestMetrics_OutageIsNoRefusal(t *testing.T) {
	s := newSite(t, 30)
	s.all[4].Spec.ProviderID = "onprem://ber1/node-w4"
	s.all[5].Spec.ProviderID = "kwok://w5"
	registry := k8smetrics.NewKubeRegistry()
	registry.MustRegister(s.metrics.refused)
	counts := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				got[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
			}
		}
		return got
	}
	s.runFor(t, 10*time.Minute, lists(30), 3, 4, 5)
	if got := counts(); len(got) > 0 {
		t.Errorf("three outages are counted as %v", got)
	}
	s.runFor(t, time.Minute, []byte("<html>"), 3) // and the inventory is not up to date
	if got := counts(); len(got) > 0 {
		t.Errorf("an outage without inventory is counted as %v", got)
	}
	s.runFor(t, time.Minute, lists(30, 3), 3)
	s.runFor(t, time.Minute, []byte("<html>"), 3)
	if got := counts(); got["StillTalking"] == 0 || got["NotUpToDate"] == 0 {
		t.Errorf("a machine that is listed as gone is counted as %v", got)
	}
}
