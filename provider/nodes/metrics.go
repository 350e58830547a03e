package nodes

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/inventory"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// metrics of the provider. They count nothing until they are registered.
type metrics struct {
	calls    *k8smetrics.HistogramVec
	matches  *k8smetrics.CounterVec
	rejected *k8smetrics.CounterVec
	refused  *k8smetrics.CounterVec
	deleted  *k8smetrics.Counter
	age      k8smetrics.GaugeFunc
	// pending are those about Nodes, which [metrics.watch] adds.
	pending []k8smetrics.GaugeFunc
}

// subsystem begins the name of each metric.
const subsystem = "ccmadm_onprem"

func newMetrics(store *inventory.Store, now func() time.Time) *metrics {
	counter := func(name, help, label string) *k8smetrics.CounterVec {
		return k8smetrics.NewCounterVec(&k8smetrics.CounterOpts{
			Subsystem: subsystem, Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA,
		}, []string{label})
	}
	return &metrics{
		calls: k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
			Subsystem: subsystem, Name: "call_duration_seconds", Help: "Duration of calls by upstream's controllers.",
			Buckets: k8smetrics.ExponentialBuckets(0.00001, 10, 7), StabilityLevel: k8smetrics.ALPHA,
		}, []string{"call", "result"}),
		matches:  counter("inventory_matches_total", "Look-ups of a Node's machine, by the rule that matched.", "rule"),
		rejected: counter("inventory_rejected_total", "Readings of the inventory that were rejected, by reason.", "reason"),
		refused: counter("deletion_refused_total", "Answers that a machine exists although the inventory lists it as gone, by the rule "+
			"that kept the Node.", "reason"),
		deleted: k8smetrics.NewCounter(&k8smetrics.CounterOpts{
			Subsystem: subsystem, Name: "deletions_total", Help: "Nodes whose machine was reported as gone.", StabilityLevel: k8smetrics.ALPHA,
		}),
		age: k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
			Subsystem: subsystem, Name: "inventory_age_seconds", Help: "Time since the inventory was last confirmed by its " +
				"source; -1 before that.",
			StabilityLevel: k8smetrics.ALPHA,
		}, func() float64 {
			if store == nil || store.Status().Confirmed.IsZero() {
				return -1
			}
			return now().Sub(store.Status().Confirmed).Seconds()
		}),
	}
}

// register shows them at /metrics.
func (m *metrics) register() {
	for _, metric := range []k8smetrics.Registerable{m.calls, m.matches, m.rejected, m.refused, m.deleted} {
		if err := legacyregistry.Register(metric); err != nil {
			klog.ErrorS(err, "A metric will be missing", "provider", inventory.Scheme)
		}
	}
	for _, metric := range append([]k8smetrics.GaugeFunc{m.age}, m.pending...) {
		if err := legacyregistry.Registerer().Register(metric); err != nil {
			klog.ErrorS(err, "A metric will be missing", "provider", inventory.Scheme)
		}
	}
}

// watch adds metrics about the Nodes of a cache that wait for their initialization.
func (m *metrics) watch(nodes cache.Store, now func() time.Time) {
	w := &waiting{nodes: nodes, now: now, since: map[types.UID]time.Time{}}
	gauge := func(name, help string, value func() float64) {
		m.pending = append(m.pending, k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
			Subsystem: subsystem, Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA,
		}, value))
	}
	gauge("nodes_uninitialized", "Nodes with the taint node.cloudprovider.kubernetes.io/uninitialized.",
		func() float64 { n, _ := w.look(); return float64(n) })
	gauge("node_uninitialized_seconds", "How long the manager has seen this taint on the Node that has waited the longest; "+
		"0 without such a Node.", func() float64 { _, longest := w.look(); return longest.Seconds() })
}

// waiting has since when Nodes wait. A Node's age says nothing: adopt taints Nodes that are years old. Each scrape looks, so that
// the time is right to within one interval of the scraper.
type waiting struct {
	nodes cache.Store
	now   func() time.Time

	mu    sync.Mutex
	since map[types.UID]time.Time
}

// look returns how many Nodes wait, and for how long the first of them has.
func (w *waiting) look() (count int, longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, since := w.now(), map[types.UID]time.Time{}
	for _, node := range objects.List[*corev1.Node](w.nodes) {
		if !uninitialized(node) {
			continue
		}
		begin, known := w.since[node.UID]
		if !known {
			begin = now
		}
		since[node.UID] = begin
		longest = max(longest, now.Sub(begin))
	}
	w.since = since
	return len(since), longest
}

func (m *metrics) match(rule string) { m.matches.WithLabelValues(rule).Inc() }

// called notes how long a call took.
func (m *metrics) called(call string, start time.Time, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.calls.WithLabelValues(call, result).Observe(time.Since(start).Seconds())
}
