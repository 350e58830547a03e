package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// voteTime is how long an agent does not report before it loses its vote on who owns an address of level L2.
const voteTime = 5 * time.Minute

// silenceWatch finds the agents that stopped reporting while others report. Agents cannot find it out themselves: one that has
// just started would count other votes than those that have seen the silence (docs/adr/0038-votes-of-silent-agents.md).
type silenceWatch struct {
	liveness objects.Liveness
	heard    time.Time         // when the last report of any of them came
	told     map[string]string // the report, by Node, for which the API server refused to be told of the silence
}

// silent are those that have not reported for voteTime, and are not marked so. While none reports, as when the API
// server is away, nobody's time runs.
func (h *silenceWatch) silent(now time.Time, agents []*v1alpha1.NodeAgent, leases []*v1alpha1.NodeAgentLease) []*v1alpha1.NodeAgent {
	there := map[string]bool{}
	for _, agent := range agents {
		there[agent.Name] = true
	}
	heard := h.liveness.ObserveAll(now, agents, leases)
	gone := func(name string) bool { return !there[name] }
	maps.DeleteFunc(h.liveness, func(name string, _ objects.LastReport) bool { return gone(name) })
	maps.DeleteFunc(h.told, func(name, _ string) bool { return gone(name) })
	if heard && now.Sub(h.heard) > objects.LiveTime {
		clear(h.liveness)
		h.liveness.ObserveAll(now, agents, leases)
	}
	if heard {
		h.heard = now
	}
	if now.Sub(h.heard) > objects.LiveTime {
		return nil
	}
	var silent []*v1alpha1.NodeAgent
	for _, agent := range agents {
		if h.liveness.Within(voteTime, now, agent.Name) {
			delete(h.told, agent.Name)
		} else if !agent.Silent() && h.told[agent.Name] != agent.Status.Renewed() {
			silent = append(silent, agent)
		}
	}
	return silent
}

// markSilent takes the vote from agents that do not report. Permissions of an older release do not allow it: that is said once.
func (b *Balancer) markSilent(ctx context.Context) error {
	for _, agent := range b.silence.silent(b.Now(), b.caches.nodeAgents(), b.Agents.Leases()) {
		renewed := agent.Status.Renewed()
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{v1alpha1.AgentSilentAnnotation: renewed},
		}})
		if err == nil {
			_, err = b.Objects.NodeAgents.Patch(ctx, agent.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		switch {
		case err == nil:
			klog.InfoS("A node agent has not reported for five minutes: its vote on addresses of level L2, if it has one, goes to another Node",
				"node", agent.Name, "reported", renewed)
		case apierrors.IsNotFound(err):
		case objects.Refused(err):
			b.silence.told[agent.Name] = renewed
			klog.ErrorS(err, "Failed to revoke the vote of a node agent that does not report", "node", agent.Name)
		default:
			return fmt.Errorf("patch NodeAgent/%s: %w", agent.Name, err)
		}
	}
	return nil
}
