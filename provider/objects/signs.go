package objects

import (
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// LiveTime is how old an agent's report may be, since it was seen here for the first time. Agents write theirs every
// 20 seconds. Their clocks decide nothing: one that is a minute behind is not dead, and one that is ahead does not live
// on.
const LiveTime = time.Minute

// Signs are those of life that were seen of agents, by Node. Whoever keeps them sees to it that one at a time uses
// them.
type Signs map[string]Sign

// Sign is one of life, of a NodeAgent.
type Sign struct {
	renewed time.Time // by the agent's clock
	seen    time.Time // by ours, when renewed became what it is
}

// Take takes a report, as often as it comes: it is a sign of life if it was renewed, or is the first. It says which.
func (s Signs) Take(now time.Time, agent *v1alpha1.NodeAgent) bool {
	renewed := agent.Status.RenewTime.Time
	if before, known := s[agent.Name]; known && before.renewed.Equal(renewed) {
		return false
	}
	s[agent.Name] = Sign{renewed: renewed, seen: now}
	return true
}

// Live says whether the agent of a Node has given a sign of life lately.
func (s Signs) Live(now time.Time, node string) bool { return s.Within(LiveTime, now, node) }

// Within says whether it has given one for so long.
func (s Signs) Within(d time.Duration, now time.Time, node string) bool {
	sign, there := s[node]
	return there && now.Sub(sign.seen) < d
}
