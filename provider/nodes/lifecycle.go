package nodes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// lifecycle decides whether a machine is gone. inventory.Guard has the rules; here
// is what it takes to apply them: who was heard of when, what was announced, and
// what was deleted lately. The first two are forgotten when the process ends, and then
// every deletion is announced again; the last is kept in the cluster.
type lifecycle struct {
	config  config.InventorySource
	store   *inventory.Store
	metrics *metrics
	now     func() time.Time
	started time.Time // leading since

	cluster cluster
	kinds   map[finding.ID]finding.Kind // of refusals; that an ID looks itself up is too slow for every question

	mu         sync.Mutex
	heard      map[types.UID]heard
	candidates map[types.UID]candidate
	deleted    map[types.UID]time.Time // nil before the first question
}

// cluster is what a lifecycle asks, and where it tells.
type cluster struct {
	nodes func(context.Context) (cache.Indexer, error)
	// heartbeat returns something that changes whenever the kubelet renews its Lease, read from
	// the API server itself, and fails when the Node is no longer this one.
	heartbeat func(context.Context, *corev1.Node) (string, error)
	warn      func(node *corev1.Node, reason, message string)
	deletions deletions
}

// deletions is where the use of the budget is kept: in memory alone, each new leader would have all of it.
type deletions interface {
	Deletions(ctx context.Context) (map[types.UID]time.Time, error)
	SaveDeletions(ctx context.Context, term int, deletions map[types.UID]time.Time) error
}

// heard is since when a Node has had the same heartbeat. The clock is ours: that of
// a machine may be slow, and then each of its heartbeats looks old.
type heard struct {
	heartbeat string
	at        time.Time
	asked     time.Time
}

func newLifecycle(
	config config.InventorySource, store *inventory.Store, metrics *metrics,
	now func() time.Time, cluster cluster,
) *lifecycle {
	kinds := map[finding.ID]finding.Kind{}
	for _, kind := range finding.Catalogue() {
		kinds[kind.ID] = kind
	}
	return &lifecycle{
		config: config, store: store, metrics: metrics, now: now, started: now(), cluster: cluster, kinds: kinds,
		heard: map[types.UID]heard{}, candidates: map[types.UID]candidate{},
	}
}

// exists answers for a NotReady Node. An error keeps the Node, as yes does.
func (l *lifecycle) exists(ctx context.Context, node *corev1.Node) (bool, error) {
	if _, _, ours := inventory.Split(node.Spec.ProviderID); !ours {
		return l.stays(node, finding.NotOurs), nil
	}
	status := l.store.Status()
	if status.Inventory == nil {
		return true, fmt.Errorf("ask whether Node/%s exists: there is no inventory", node.Name)
	}
	nodes, err := l.cluster.nodes(ctx)
	if err != nil {
		return true, err
	}
	evidence, err := l.evidence(status, node, nodes)
	if err != nil {
		return true, err
	}
	policy := status.Inventory.Policy
	if refusal := inventory.GuardIdentity(policy, bounds(l.config), evidence); refusal != "" {
		l.forget(node, refusal)
		if !inventory.Gone(policy, evidence) { // an outage, and no deletion that is refused
			return l.stays(node, refusal), nil
		}
		return l.keep(node, refusal), nil
	}
	heartbeat, err := l.cluster.heartbeat(ctx, node)
	if err != nil {
		l.forget(node, finding.StillTalking)
		l.keep(node, finding.StillTalking)
		return true, fmt.Errorf("listen to Node/%s: %w", node.Name, err)
	}
	return l.decide(ctx, policy, evidence, node, heartbeat)
}

// evidence is what is known without asking anybody.
func (l *lifecycle) evidence(
	status inventory.Status, node *corev1.Node, nodes cache.Indexer,
) (inventory.Evidence, error) {
	i := status.Inventory
	site, id, ours := inventory.Split(node.Spec.ProviderID)
	m, rule, err := i.Match(inventory.FactsOf(node))
	if err != nil {
		return inventory.Evidence{}, err
	}
	_, controlPlane := node.Labels["node-role.kubernetes.io/control-plane"]
	e := inventory.Evidence{
		OurSite:  ours && site == i.Metadata.Site,
		UpToDate: status.UpToDate(),
		Age:      l.now().Sub(status.Confirmed), Readings: status.Readings,
		Machine: m, WasListed: node.Labels[v1alpha1.MachineLabel] == machineLabel(id),
		ControlPlane: controlPlane, Leading: l.now().Sub(l.started), Nodes: len(nodes.ListKeys()),
	}
	if m == nil {
		e.MissingIn, e.MissingSince = l.store.Missing(id)
		return e, nil
	}
	if rule != inventory.ByProviderID && !inventory.Adopted(id) {
		// Its own entry has gone, and it looks like another one: which of the two
		// was meant is not for us to say.
		e.OurSite = false
	}
	e.Renamed, err = l.renamed(node, m, nodes)
	return e, err
}

// renamed reports whether the Node is but the old name of a machine: one that the
// inventory calls by the name of another Node, which has the same provider ID and
// is Ready. Where the inventory names neither, one of them may run on a clone, and
// a person has to say which.
func (l *lifecycle) renamed(node *corev1.Node, m *config.Machine, nodes cache.Indexer) (bool, error) {
	others, err := nodes.ByIndex(identityIndex, node.Spec.ProviderID)
	if err != nil {
		return false, fmt.Errorf("find Nodes that are %s: %w", node.Spec.ProviderID, err)
	}
	for _, object := range others {
		other, ok := object.(*corev1.Node)
		if !ok || other.Name == node.Name || other.Spec.ProviderID != node.Spec.ProviderID || !nodestatus.IsReady(other) {
			continue
		}
		if m.Named(other.Name) && !m.Named(node.Name) {
			return true, nil
		}
		l.cluster.warn(node, "MachineTaken", fmt.Sprintf("machine %s is Node/%s, too: if it was renamed, list it with "+
			"hostname %s, and this Node will go; if one is a clone, give it a systemUUID of its own",
			node.Spec.ProviderID, other.Name, other.Name))
	}
	return false, nil
}

// bounds are the settings of the guard.
func bounds(c config.InventorySource) inventory.Bounds {
	return inventory.Bounds{MaxAge: c.MaxAge.Duration, Silence: c.Silence.Duration}
}

// decide applies the rules that need memory, and answers exists.
func (l *lifecycle) decide(
	ctx context.Context, policy config.InventoryPolicy, e inventory.Evidence, node *corev1.Node, heartbeat string,
) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.deleted == nil {
		deleted, err := l.cluster.deletions.Deletions(ctx)
		if err != nil {
			return true, err
		}
		for uid, at := range deleted {
			if at.After(now) { // by a clock that was ahead
				deleted[uid] = now
			}
		}
		l.deleted = deleted
	}
	l.prune(now, policy.DeletionBudget.Per.Duration)
	if node.DeletionTimestamp != nil { // a finalizer keeps it: nothing is left to decide, and the limits are for others
		delete(l.candidates, node.UID)
		return true, nil
	}
	h, ok := l.heard[node.UID]
	if !ok || h.heartbeat != heartbeat {
		h = heard{heartbeat: heartbeat, at: now}
	}
	h.asked = now
	l.heard[node.UID] = h
	e.Silent = now.Sub(h.at)
	c := l.candidates[node.UID]
	c.asked = now
	if e.Silent >= l.config.Silence.Duration {
		l.candidates[node.UID] = c
	}
	for uid, other := range l.candidates {
		if uid == node.UID || other.tried.IsZero() { // those that the API server refuses were few enough once
			e.Candidates++
		}
	}
	for uid := range l.deleted {
		if uid != node.UID { // a deletion that did not work may be tried again
			e.Deleted++
		}
	}
	if refusal := inventory.Guard(policy, bounds(l.config), e); refusal != "" {
		if refusal == finding.StillTalking {
			delete(l.candidates, node.UID)
		} else {
			l.candidates[node.UID] = candidate{asked: now, tried: c.tried}
			l.cluster.warn(node, "DeletionRefused", fmt.Sprintf("%s, and the Node stays (%s): %s", verdict(node, e),
				l.kinds[refusal].Reason, l.kinds[refusal].Title))
		}
		return l.keep(node, refusal), nil
	}
	return l.announceOrDelete(ctx, node, verdict(node, e), c, now)
}
