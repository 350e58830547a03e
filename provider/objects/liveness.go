package objects

import (
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// LiveTime is how old the last sign of life of an agent may be, since it was seen here for the first time. Agents renew their
// NodeAgentLease, or their NodeAgent, every 20 seconds. Their clocks decide nothing: an agent whose clock is a minute behind counts as
// live, and one whose clock is ahead does not count for longer.
const LiveTime = time.Minute

// Liveness has the last sign of life of each agent, by Node. Its user sees to it that one goroutine at a time uses it.
type Liveness map[string]LastReport

// LastReport is the last that was written of a NodeAgent and of its NodeAgentLease.
type LastReport struct {
	report, lease time.Time // their renewTime, by the agent's clock
	seen          time.Time // by ours, when one of them became what it is
	silent        bool      // it was marked as silent when it was seen first, and nothing has come since
}

// Observe notes a report, as often as it comes. It returns whether the report is new: renewed, or the first. The first one of an agent that
// is marked as silent is no sign of life: another leader has waited for one in vain. The agent may renew its lease before it sees the mark.
func (l Liveness) Observe(now time.Time, agent *v1alpha1.NodeAgent) bool {
	last, known := l[agent.Name]
	return l.note(now, agent.Name, LastReport{report: agent.Status.RenewTime.Time, lease: last.lease, silent: !known && agent.Silent()})
}

// ObserveLease notes a NodeAgentLease in the same way. An agent without a NodeAgent has said nothing that could count. The first lease of an
// agent is not new: it may be of long ago. Its next one is.
func (l Liveness) ObserveLease(now time.Time, lease *v1alpha1.NodeAgentLease) bool {
	last, known := l[lease.Name]
	if !known {
		return false
	}
	first := last.lease.IsZero()
	last.lease = lease.RenewTime.Time
	if first {
		l[lease.Name] = last
		return false
	}
	last.silent = false
	return l.note(now, lease.Name, last)
}

// ObserveAll notes reports, and then leases. It returns whether one of them is new.
func (l Liveness) ObserveAll(now time.Time, agents []*v1alpha1.NodeAgent, leases []*v1alpha1.NodeAgentLease) bool {
	heard := false
	for _, agent := range agents {
		heard = l.Observe(now, agent) || heard
	}
	for _, lease := range leases {
		heard = l.ObserveLease(now, lease) || heard
	}
	return heard
}

func (l Liveness) note(now time.Time, node string, last LastReport) bool {
	if before, known := l[node]; known && before.report.Equal(last.report) && before.lease.Equal(last.lease) {
		return false
	}
	last.seen = now
	l[node] = last
	return true
}

// Live reports whether the agent of a Node was alive lately.
func (l Liveness) Live(now time.Time, node string) bool {
	return l.Within(LiveTime, now, node) && !l[node].silent
}

// Within reports whether it was within that time. An agent that is marked as silent counts from when it was seen first.
func (l Liveness) Within(d time.Duration, now time.Time, node string) bool {
	last, there := l[node]
	return there && now.Sub(last.seen) < d
}
