package balancer

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const subsystem = "ccmadm_onprem"

// counts are what a pass has found.
type counts struct{ live, silent, unannounced, contested int }

func countsOf(e *evaluation.Inputs, statuses map[types.NamespacedName]*evaluation.Status) *counts {
	c := &counts{live: len(e.Reports.Agents), silent: e.Reports.Silent(), contested: e.Reports.Contested()}
	for _, st := range statuses {
		if st.Problem != nil && (st.Problem.ID == finding.NotAnnounced || st.Problem.ID == finding.AgentSilent) {
			c.unannounced++
		}
	}
	return c
}

// collector shows counts, and the status of pools and peers from the caches. Its series are as many as there are pools and peers.
type collector struct {
	k8smetrics.BaseStableCollector

	b                                               *Balancer
	agents, unannounced, contested, pools, sessions *k8smetrics.Desc
}

var _ k8smetrics.StableCollector = (*collector)(nil)

// RegisterMetrics shows at /metrics what the passes find. A process may do it once.
func (b *Balancer) RegisterMetrics() {
	gauge := func(name, help string, labels ...string) *k8smetrics.Desc {
		return k8smetrics.NewDesc(subsystem+"_"+name, help, labels, nil, k8smetrics.ALPHA, "")
	}
	c := &collector{
		b:           b,
		agents:      gauge("node_agents", "Node agents, by whether they have reported within a minute.", "state"),
		unannounced: gauge("services_unannounced", "Services with an address that no node agent announces."),
		contested:   gauge("addresses_contested", "Addresses of level L2 that two node agents announce, or for which another machine answers."),
		pools:       gauge("pool_addresses", "Addresses of an AddressPool, as in its status.", "pool", "state"),
		sessions:    gauge("bgp_sessions", "BGP sessions of Nodes with a BGPPeer, as in its status.", "peer", "state"),
	}
	if err := legacyregistry.CustomRegister(c); err != nil {
		klog.ErrorS(err, "A metric will be missing")
	}
}

// DescribeWithStability implements StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *k8smetrics.Desc) {
	for _, desc := range []*k8smetrics.Desc{c.agents, c.unannounced, c.contested, c.pools, c.sessions} {
		ch <- desc
	}
}

// CollectWithStability implements StableCollector. Before the first pass nothing is known, and nothing is shown.
func (c *collector) CollectWithStability(ch chan<- k8smetrics.Metric) {
	found := c.b.counts.Load()
	if found == nil {
		return
	}
	show := func(desc *k8smetrics.Desc, value float64, labels ...string) {
		ch <- k8smetrics.NewLazyConstMetric(desc, k8smetrics.GaugeValue, value, labels...)
	}
	show(c.agents, float64(found.live), "live")
	show(c.agents, float64(found.silent), "silent")
	show(c.unannounced, float64(found.unannounced))
	show(c.contested, float64(found.contested))
	for _, pool := range c.b.caches.addressPools() {
		show(c.pools, float64(pool.Status.Assigned), pool.Name, "assigned")
		show(c.pools, float64(pool.Status.Quarantined), pool.Name, "quarantined")
		if free, err := strconv.ParseFloat(pool.Status.Available, 64); err == nil { // empty until it is counted
			show(c.pools, free, pool.Name, "available")
		}
	}
	for _, peer := range objects.List[*v1alpha1.BGPPeer](c.b.caches.peers.GetStore()) {
		show(c.sessions, float64(peer.Status.Established), peer.Name, "established")
		show(c.sessions, float64(peer.Status.Nodes-peer.Status.Established), peer.Name, "down")
	}
}
