package objects

import (
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// LiveTime is how old an agent's report may be, since it was seen here for the first time. Agents write theirs every
// 20 seconds. Their clocks decide nothing: an agent whose clock is a minute behind counts as live, and one whose clock is
// ahead does not count for longer.
const LiveTime = time.Minute

// Liveness has the last report of each agent, by Node. Its user sees to it that one goroutine at a time uses it.
type Liveness map[string]LastReport

// LastReport is that of a NodeAgent.
type LastReport struct {
	renewed time.Time // by the agent's clock
	seen    time.Time // by ours, when renewed became what it is
}

// Observe notes a report, as often as it comes. It returns whether the report is new: renewed, or the first.
func (l Liveness) Observe(now time.Time, agent *v1alpha1.NodeAgent) bool {
	renewed := agent.Status.RenewTime.Time
	if before, known := l[agent.Name]; known && before.renewed.Equal(renewed) {
		return false
	}
	l[agent.Name] = LastReport{renewed: renewed, seen: now}
	return true
}

// Live reports whether the agent of a Node has reported lately.
func (l Liveness) Live(now time.Time, node string) bool { return l.Within(LiveTime, now, node) }

// Within reports whether it has reported within that time.
func (l Liveness) Within(d time.Duration, now time.Time, node string) bool {
	last, there := l[node]
	return there && now.Sub(last.seen) < d
}
