package agent

import (
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/ccmadm/ccmadm/agent/metrics"
	"github.com/ccmadm/ccmadm/provider/announce/l2"
	"github.com/ccmadm/ccmadm/provider/egress"
)

// gauges registers gauges of what is counted.
func gauges[T any](counts func() T) func(name, help string, value func(T) int) {
	return func(name, help string, value func(T) int) {
		metrics.Register("ccmadm_agent", name, help, func() int { return value(counts()) })
	}
}

// RegisterMetrics shows at /metrics what the announcer of level L2 counts. A process may do it once.
func RegisterMetrics(counts func() l2.Counts) {
	gauge := gauges(counts)
	gauge("addresses_owned", "Addresses of level L2 for which this Node answers.",
		func(c l2.Counts) int { return c.Owned })
	gauge("address_conflicts", "Addresses of this Node for which a machine without an agent answers.",
		func(c l2.Counts) int { return c.Conflicts })
	gauge("takeovers", "Times that this Node became the owner of an address, since its agent started.",
		func(c l2.Counts) int { return int(c.Takeovers) })
	gauge("votes", "Nodes with a vote on the owners of addresses of level L2.",
		func(c l2.Counts) int { return c.Votes })
	gauge("votes_silent", "Nodes with a vote from which this Node receives no heartbeats, while any are sent.",
		func(c l2.Counts) int { return c.Unheard })
	gauge("heartbeats_refused", "Heartbeats without a valid signature, since the agent started.",
		func(c l2.Counts) int { return int(c.Forged) })
	gauge("heartbeats_unverified", "Heartbeats from where no agent is known that were too many to verify, since the agent started.",
		func(c l2.Counts) int { return int(c.Unverified) })
}

// RegisterEgressMetrics shows at /metrics what is counted of packets of pods that leave with the address of a Service. A process may do it once.
func RegisterEgressMetrics(counts func() egress.Counts) {
	gauge := gauges(counts)
	gauge("egress_pods", "Pods of the cluster whose packets leave it with the address of their Service.",
		func(c egress.Counts) int { return c.Pods })
	gauge("egress_pods_owned", "Those of them whose packets leave the cluster by this Node.",
		func(c egress.Counts) int { return c.Owned })
	gauge("egress_failing", "1 if this Node cannot send packets of pods with the address of their Service, else 0.",
		func(c egress.Counts) int { return c.Failing })
}

// RegisterHookMetrics shows at /metrics for how many addresses the hook fails, and what became of calls. A process may do it once.
func RegisterHookMetrics(failing func() int) func(result string, took time.Duration) {
	gauge := func(name, help string) { metrics.Register("ccmadm_agent", name, help, failing) }
	gauge("hooks_failing", "Addresses of this Node whose AddressPool's hook fails.")
	calls := k8smetrics.NewHistogramVec(&k8smetrics.HistogramOpts{
		Subsystem: "ccmadm_agent", Name: "hook_duration_seconds", StabilityLevel: k8smetrics.ALPHA,
		Help:    "Duration of calls of hooks of AddressPools, by result: ok, refused (another owner has called since), failed.",
		Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60},
	}, []string{"result"})
	legacyregistry.MustRegister(calls)
	return func(result string, took time.Duration) { calls.WithLabelValues(result).Observe(took.Seconds()) }
}
