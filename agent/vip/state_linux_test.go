package vip

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// state is what the machine's program says of the address.
func (c *cp) state(t *testing.T) v1alpha1.VIPReport {
	t.Helper()
	code, text := c.asks(t, statePath)
	var r v1alpha1.VIPReport
	if err := json.Unmarshal([]byte(text), &r); err != nil || code != http.StatusOK {
		t.Fatalf("%s says %d %q: %v", c.name, code, text, err)
	}
	return r
}

// Each machine knows who has the address and why, and which votes are missing.
func TestVIP_State(t *testing.T) {
	machines, client := apart(t, 3)
	owner := machines[client.wait(t, machines, 20*time.Second, "")]
	votes := []string{"cp1", "cp2", "cp3"}
	knows := func(what string, is func(m *cp, r v1alpha1.VIPReport) bool) {
		t.Helper()
		for _, m := range machines {
			if m.vip.ProcessState == nil {
				eventually(t, 5*time.Second, m.name+": "+what, func() bool { return is(m, m.state(t)) })
			}
		}
	}
	knows("who has it", func(m *cp, r v1alpha1.VIPReport) bool {
		return r.Address == "192.0.2.10" && r.Owner == owner.name && r.Has == (m == owner) && r.Message != "" &&
			slices.Equal(r.Votes, votes) && len(r.Unheard) == 0
	})
	kill(owner.api)
	next := machines[client.wait(t, machines, 10*time.Second, owner.mac)]
	knows("who has it now", func(m *cp, r v1alpha1.VIPReport) bool {
		return r.Owner == next.name && (m != owner || strings.Contains(r.Message, "API server does not answer"))
	})
	kill(next.vip)
	knows("a vote is silent", func(m *cp, r v1alpha1.VIPReport) bool {
		return slices.Equal(r.Unheard, []string{next.name}) && r.Owner != "" && r.Owner != next.name
	})
	kill(owner.vip)
	knows("two votes are missing", func(m *cp, r v1alpha1.VIPReport) bool {
		return !r.Has && len(r.Unheard) == 2 && strings.HasPrefix(r.Message, "no majority: 2 of 3 votes are missing: ")
	})
	for _, m := range machines {
		if m.vip.ProcessState == nil {
			_, text := m.asks(t, "/metrics")
			if !strings.Contains(text, "ccmadm_vip_votes_silent 2") || !strings.Contains(text, "ccmadm_vip_owned 0") {
				t.Error("/metrics does not say that two votes are missing, and that it does not own the address")
			}
		}
	}
}
