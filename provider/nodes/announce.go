package nodes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// candidate is a Node that is gone by all rules except those that look at others.
type candidate struct {
	asked     time.Time
	announced time.Time // zero: not yet, or withdrawn
	tried     time.Time // when its deletion was last begun, and the API server refused it; zero: never
}

// verdict is what the inventory says of a Node that may go.
func verdict(node *corev1.Node, e inventory.Evidence) string {
	if e.Renamed && e.Machine.State != config.MachineDecommissioned {
		return fmt.Sprintf("the inventory lists machine %s under another name", node.Spec.ProviderID)
	}
	return fmt.Sprintf("the inventory lists machine %s as gone", node.Spec.ProviderID)
}

// announceOrDelete is the two steps. A deletion is in the budget for a period. The caller holds the lock.
func (l *lifecycle) announceOrDelete(ctx context.Context, node *corev1.Node, verdict string, c candidate, now time.Time,
) (bool, error) {
	delay := l.config.DeletionDelay.Duration
	switch {
	case c.announced.IsZero():
		c.announced = now
		l.candidates[node.UID] = c
		message := fmt.Sprintf("%s, and its kubelet posts no status: the Node will be deleted after %s; to keep it, set "+
			"protected: true, or start the machine",
			verdict, now.Add(delay).UTC().Format(time.RFC3339))
		if l.config.DryRun {
			message += " (dry run: it will not)"
		}
		l.cluster.warn(node, "DeletionAnnounced", message)
		return l.keep(node, "Announced"), nil
	case now.Sub(c.announced) < delay:
		return l.keep(node, "Announced"), nil
	case l.config.DryRun:
		return l.keep(node, "DryRun"), nil
	}
	if _, again := l.deleted[node.UID]; again { // which the API server refuses
		return false, nil
	}
	// Where the API server refuses to delete one Node, those that were not tried since go first.
	for uid, other := range l.candidates {
		if uid != node.UID && !other.announced.IsZero() && other.tried.Before(c.tried) {
			return l.keep(node, finding.BudgetExhausted), nil
		}
	}
	deleted := maps.Clone(l.deleted)
	deleted[node.UID] = now
	if err := l.cluster.deletions.SaveDeletions(ctx, l.store.Term(), deleted); err != nil {
		return true, fmt.Errorf("keep to the budget of deletions: %w", err)
	}
	l.deleted = deleted
	if c.tried.IsZero() {
		l.metrics.deleted.Inc()
	}
	klog.InfoS("Machine is gone", "node", node.Name, "providerID", node.Spec.ProviderID, "announced", c.announced)
	return false, nil
}

// keep counts and logs why a Node stays that the inventory lists as gone, and says that the machine exists.
func (l *lifecycle) keep(node *corev1.Node, why finding.ID) bool {
	l.metrics.refused.WithLabelValues(l.reason(why)).Inc()
	return l.stays(node, why)
}

// stays logs why, and says that the machine exists.
func (l *lifecycle) stays(node *corev1.Node, why finding.ID) bool {
	klog.V(2).InfoS("Node stays", "node", node.Name, "providerID", node.Spec.ProviderID, "why", l.reason(why))
	return true
}

func (l *lifecycle) reason(why finding.ID) string { return cmp.Or(l.kinds[why].Reason, string(why)) }

// forget withdraws what was announced, and with it what was heard of the kubelet, unless only the inventory is in doubt.
func (l *lifecycle) forget(node *corev1.Node, why finding.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.candidates, node.UID)
	if why != finding.NotUpToDate {
		delete(l.heard, node.UID)
	}
}

// prune drops what is no longer asked about: Nodes that are Ready or gone. The
// caller holds the lock.
func (l *lifecycle) prune(now time.Time, period time.Duration) {
	const patience = 2 * time.Minute
	for uid, c := range l.candidates {
		if now.Sub(c.asked) > patience {
			delete(l.candidates, uid)
		}
	}
	for uid, h := range l.heard {
		if now.Sub(h.asked) > patience {
			delete(l.heard, uid)
		}
	}
	for uid, at := range l.deleted {
		if now.Sub(at) <= period {
			continue
		}
		delete(l.deleted, uid)
		// A Node that is still there was refused. It is announced again with the others, of which no more may go at once than the budget
		// has, whenever the API server deletes again.
		if c, is := l.candidates[uid]; is {
			l.candidates[uid] = candidate{asked: c.asked, tried: at}
		}
	}
}
