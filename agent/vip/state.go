package vip

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/agent/metrics"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/changes"
)

// statePath is where the static pod says what it knows, beside /readyz.
const statePath = "/vip"

// report is what this machine knows of the address.
func (h *holder) report() v1alpha1.VIPReport {
	votes, unheard := h.votes()
	r := v1alpha1.VIPReport{Address: h.address.String(), Owner: h.owner(h.address), Votes: votes, Unheard: unheard}
	h.mu.Lock()
	defer h.mu.Unlock()
	r.Has = r.Owner == h.self && h.cut == nil
	switch {
	case h.cut != nil:
		r.Message = h.cut.Error()
	case r.Has && !h.healthy:
		r.Message = "its API server does not answer, and no other control plane could have the address"
	case !h.healthy:
		r.Message = "its API server does not answer"
	case r.Has:
		r.Message = fmt.Sprintf("a majority of %d votes grants it", len(votes))
	case r.Owner != "":
		r.Message = r.Owner + " has it"
	case len(unheard) > 0:
		r.Message = "no majority: " + unheardOf(r)
	default:
		r.Message = "no control plane has it yet"
	}
	return r
}

// unheardOf says how many votes are missing.
func unheardOf(r v1alpha1.VIPReport) string {
	return fmt.Sprintf("%d of %d votes are missing: %s", len(r.Unheard), len(r.Votes), strings.Join(r.Unheard, ", "))
}

// report is what this machine knows of the address. Routers decide which of the machines gets a connection.
func (h *bgpHolder) report(ctx context.Context) v1alpha1.VIPReport {
	r := v1alpha1.VIPReport{Address: h.address.String(), Has: true, Message: "it announces the address"}
	if err := h.state(ctx); err != nil {
		r.Has, r.Message = false, err.Error()
	}
	return r
}

// watchVotes logs each second which votes are missing, when that is others than before, and has been twice in a row.
func watchVotes(ctx context.Context, report func() v1alpha1.VIPReport) {
	var last, told []string
	for ; ctx.Err() == nil; changes.Sleep(ctx, keepInterval) {
		r := report()
		if slices.Equal(last, r.Unheard) && !slices.Equal(told, last) {
			told = last
			if len(told) > 0 {
				klog.InfoS("Votes on the control plane's address are missing", "silent", len(told), "votes", len(r.Votes), "nodes", told)
			} else {
				klog.InfoS("All votes on the control plane's address are received", "votes", len(r.Votes))
			}
		}
		last = r.Unheard
	}
}

// registerMetrics shows at /metrics what a report says.
func registerMetrics(report func() v1alpha1.VIPReport) {
	gauge := func(name, help string, value func(v1alpha1.VIPReport) int) {
		metrics.Register("ccmadm_vip", name, help, func() int { return value(report()) })
	}
	gauge("owned", "1 if this machine has the control plane's address, else 0.", func(r v1alpha1.VIPReport) int {
		if r.Has {
			return 1
		}
		return 0
	})
	gauge("votes", "Control planes that vote on the owner of the address; 0 with BGP.",
		func(r v1alpha1.VIPReport) int { return len(r.Votes) })
	gauge("votes_silent", "Those of them from which this machine receives no heartbeats.",
		func(r v1alpha1.VIPReport) int { return len(r.Unheard) })
}

// answer serves a report.
func answer(report func() v1alpha1.VIPReport) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{statePath: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report()) // who asked is gone
	}}
}
