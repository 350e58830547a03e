package agent

import (
	"github.com/ccmadm/ccmadm/agent/metrics"
	"github.com/ccmadm/ccmadm/provider/announce/l2"
)

// RegisterMetrics shows at /metrics what the announcer of level L2 counts. A process may do it once.
func RegisterMetrics(counts func() l2.Counts) {
	gauge := func(name, help string, value func(l2.Counts) int) {
		metrics.Register("ccmadm_agent", name, help, func() int { return value(counts()) })
	}
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
}
