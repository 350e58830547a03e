package nodes

import (
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/inventory"
)

// metrics of the provider. They count nothing until they are registered.
type metrics struct {
	calls    *k8smetrics.HistogramVec
	matches  *k8smetrics.CounterVec
	rejected *k8smetrics.CounterVec
	refused  *k8smetrics.CounterVec
	deleted  *k8smetrics.Counter
	age      k8smetrics.GaugeFunc
}

func newMetrics(store *inventory.Store, now func() time.Time) *metrics {
	const subsystem = "ccmadm_onprem"
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
		refused: counter("deletion_refused_total", "Answers that a machine exists although the inventory lists it as gone "+
			"or not at all, by the rule that kept the Node.", "reason"),
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
	if err := legacyregistry.Registerer().Register(m.age); err != nil {
		klog.ErrorS(err, "A metric will be missing", "provider", inventory.Scheme)
	}
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
