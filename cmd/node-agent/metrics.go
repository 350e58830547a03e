package main

import (
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/relay"
)

// registerMetrics shows at /metrics what the announcer of levels L2 and Proxy counts, and who carries for the latter.
func registerMetrics(answers func() announce.Counts, carries func() relay.Counts) {
	gauge := func(name, help string, value func() int) {
		legacyregistry.RawMustRegister(k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
			Subsystem: "ccmadm_agent", Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA,
		}, func() float64 { return float64(value()) }))
	}
	gauge("addresses_owned", "Addresses of levels L2 and Proxy for which this Node answers.",
		func() int { return answers().Owned })
	gauge("address_conflicts", "Addresses of this Node for which somebody else answers who is no agent.",
		func() int { return answers().Conflicts })
	gauge("takeovers", "How often this Node has become the owner of an address, since its agent started.",
		func() int { return int(answers().Takeovers) })
	gauge("heartbeats_refused", "Datagrams that were not signed with the cluster's key, since the agent started.",
		func() int { return int(answers().Forged) })
	gauge("connections", "Connections to addresses of level Proxy that this Node carries.",
		func() int { return carries().Open })
	gauge("connections_refused", "Connections that were refused since there were too many, since the agent started.",
		func() int { return int(carries().Refused) })
}
