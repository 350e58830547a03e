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

// voteTime is how long an agent gives no sign of life before it has no vote on who owns an address of level L2.
const voteTime = 5 * time.Minute

// hearing finds the agents that report no more while others do. Agents cannot find it out for themselves: one that has
// just started would count other votes than those that have seen the silence (docs/adr/0038-votes-of-silent-agents.md).
type hearing struct {
	signs objects.Signs
	heard time.Time         // when one of them gave the last sign
	told  map[string]string // the report, by Node, for which the API server refused to be told of the silence
}

// silent are those that have given no sign for voteTime, and are not marked so. While none gives any, as when the API
// server is away, nobody's time runs.
func (h *hearing) silent(now time.Time, agents []*v1alpha1.NodeAgent) []*v1alpha1.NodeAgent {
	there, heard := map[string]bool{}, false
	for _, agent := range agents {
		there[agent.Name] = true
		heard = h.signs.Take(now, agent) || heard
	}
	gone := func(name string) bool { return !there[name] }
	maps.DeleteFunc(h.signs, func(name string, _ objects.Sign) bool { return gone(name) })
	maps.DeleteFunc(h.told, func(name, _ string) bool { return gone(name) })
	if heard && now.Sub(h.heard) > objects.LiveTime {
		clear(h.signs)
		for _, agent := range agents {
			h.signs.Take(now, agent)
		}
	}
	if heard {
		h.heard = now
	}
	if now.Sub(h.heard) > objects.LiveTime {
		return nil
	}
	var silent []*v1alpha1.NodeAgent
	for _, agent := range agents {
		if !h.signs.Within(voteTime, now, agent.Name) && !agent.Silent() && h.told[agent.Name] != agent.Status.Renewed() {
			silent = append(silent, agent)
		}
	}
	return silent
}

// markSilent takes the vote from agents that are silent. Permissions of an older release do not allow it: that is said once.
func (b *Balancer) markSilent(ctx context.Context) error {
	for _, agent := range b.hearing.silent(b.Now(), b.caches.nodeAgents()) {
		renewed := agent.Status.Renewed()
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{v1alpha1.AgentSilentAnnotation: renewed},
		}})
		if err == nil {
			_, err = b.Objects.NodeAgents.Patch(ctx, agent.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		switch {
		case err == nil:
			klog.InfoS("A node agent has not reported for five minutes: it has no vote on addresses of level L2",
				"node", agent.Name, "reported", renewed)
		case apierrors.IsNotFound(err):
		case objects.Refused(err):
			b.hearing.told[agent.Name] = renewed
			klog.ErrorS(err, "A node agent is silent and keeps its vote", "node", agent.Name)
		default:
			return fmt.Errorf("patch NodeAgent/%s: %w", agent.Name, err)
		}
	}
	return nil
}
