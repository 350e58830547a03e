package routes

import (
	"net/netip"
	"testing"
	"time"
)

// The agent has nothing to write while one Node changes its address all the time.
func TestAgent_ReportsAFlappingNodeSomeTimes(t *testing.T) {
	changes, now := 0, time.Unix(1000, 0)
	agent := &Agent{Changed: func() { changes++ }}
	for n := range 600 {
		via := netip.AddrFrom4([4]byte{192, 0, 2, byte(n % 2)})
		agent.report(now, []Intent{{Destination: netip.MustParsePrefix("10.244.10.0/24"), Node: "evil", Via: via}}, nil)
		now = now.Add(time.Second)
	}
	if changes > 1+freeChanges {
		t.Errorf("%d reports in ten minutes, want %d at most", changes, 1+freeChanges)
	}
}
