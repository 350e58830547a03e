package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// Snapshot is a cluster as it is, for NewPlan.
type Snapshot struct {
	// config.OnPremConfiguration is the provider's.
	Configuration config.OnPremConfiguration
	// LastGood is the inventory in use, if there is one.
	LastGood inventory.Saved
	Nodes    []corev1.Node
	// Heard is when the kubelet of each Node was heard of last.
	Heard map[string]time.Time
	// Now is the time.
	Now time.Time
}

// Plan is what an inventory would do to a cluster.
type Plan struct {
	// Nodes are those of the cluster, by name.
	Nodes []NodePlan `json:"nodes"`
	// Spare are the machines that no Node is.
	Spare []SpareMachine `json:"machinesWithoutNode,omitempty"`
}

// SpareMachine is a machine that no Node is.
type SpareMachine struct {
	ID    string              `json:"id"`
	State config.MachineState `json:"state"`
}

// Action is what would become of a Node.
type Action string

// NodePlan is what would become of one Node.
type NodePlan struct {
	Node string `json:"node"`
	// Machine that the Node is, and what it was recognized by.
	Machine string              `json:"machine,omitempty"`
	By      inventory.Rule      `json:"by,omitempty"`
	State   config.MachineState `json:"state,omitempty"`
	Action  Action              `json:"action"`
	// Changes of what the Node says of its machine.
	Changes []Change `json:"changes,omitempty"`
	// Reason is that of the Event for a Node that is stuck, and the first rule of the
	// guard that still keeps one that is to be deleted. Message is the same in words.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Earliest is how long the deletion of a Node takes that no rule keeps.
	Earliest *metav1.Duration `json:"earliest,omitempty"`

	// Err is why the Node's machine is not clear.
	Err error `json:"-"`
}

// Change of a field.
type Change struct {
	Field string `json:"field"`
	Old   string `json:"old,omitempty"`
	New   string `json:"new,omitempty"`
}

// Differs reports whether any Node is not yet as the inventory says.
func (p *Plan) Differs() bool {
	return slices.ContainsFunc(p.Nodes, func(n NodePlan) bool { return n.Action != Unchanged })
}

// planner asks what upstream's controllers ask, of the same code, and writes nothing.
type planner struct {
	Snapshot
	instances *instances
	lifecycle *lifecycle
	status    inventory.Status
	dropped   func(id string) []corev1.Taint
	index     cache.Indexer
}

// NewPlan says what would become of the cluster if the document became its
// inventory. It fails if the document would be rejected: then the last good
// inventory stays, and nothing happens.
func NewPlan(ctx context.Context, document []byte, s Snapshot) (*Plan, error) {
	p, err := newPlanner(document, s)
	if err != nil {
		return nil, err
	}
	plan := &Plan{Nodes: []NodePlan{}}
	used := map[string]bool{}
	gone := map[string]inventory.Evidence{}
	for _, object := range p.sorted() {
		n, evidence, err := p.node(ctx, object)
		if err != nil {
			return nil, err
		}
		if n.Action == Delete && n.Reason == "" {
			gone[n.Node] = evidence
		}
		used[n.Machine] = true
		plan.Nodes = append(plan.Nodes, n)
	}
	p.schedule(plan.Nodes, gone)
	for _, m := range p.status.Inventory.Machines {
		if !used[m.ID] {
			plan.Spare = append(plan.Spare, SpareMachine{m.ID, m.State})
		}
	}
	return plan, nil
}

func newPlanner(document []byte, s Snapshot) (*planner, error) {
	limits := inventory.Limits{Site: s.Configuration.Site}
	if s.Configuration.Inventory == nil { // there is none yet: its site is free
		limits.Site = ""
		s.Configuration.Inventory = &config.InventorySource{}
		s.Configuration.Inventory.Default()
	}
	limits.MaxLossPercent = s.Configuration.Inventory.MaxLossPercent
	now := func() time.Time { return s.Now }
	store := inventory.NewStore(limits, now)
	if s.LastGood.Document != nil {
		if err := store.Restore(s.LastGood); err != nil {
			return nil, fmt.Errorf("read the inventory in use: %w", err)
		}
	}
	if _, rejection := store.Offer(document, nil); rejection != nil {
		return nil, rejection
	}
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
	for i := range s.Nodes {
		if err := index.Add(&s.Nodes[i]); err != nil {
			return nil, fmt.Errorf("look at Nodes: %w", err)
		}
	}
	nodes := func(context.Context) (cache.Indexer, error) { return index, nil }
	m := newMetrics(store, now)
	p := &planner{Snapshot: s, status: store.Status(), dropped: store.Dropped, index: index}
	p.lifecycle = newLifecycle(*s.Configuration.Inventory, store, m, now, cluster{nodes: nodes, warn: func(*corev1.Node,
		string, string) {
	}})
	p.instances = &instances{config: s.Configuration, nodes: nodes, metrics: m, machines: newMachines(store, m)}
	return p, nil
}

func (p *planner) sorted() []*corev1.Node {
	var nodes []*corev1.Node
	for i := range p.Nodes {
		nodes = append(nodes, &p.Nodes[i])
	}
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// node says what would become of one Node, as far as it alone decides.
func (p *planner) node(ctx context.Context, node *corev1.Node) (NodePlan, inventory.Evidence, error) {
	n := NodePlan{Node: node.Name, Action: Unchanged}
	i := p.status.Inventory
	m, rule, err := i.Match(inventory.FactsOf(node))
	if n.By = rule; err != nil {
		n.stuck(p.told(ctx, node, err))
		n.Err = err
		return n, inventory.Evidence{}, nil
	}
	if m != nil {
		n.Machine, n.State = m.ID, m.State
	}
	p.update(ctx, &n, node, m)
	evidence, err := p.lifecycle.evidence(p.status, node, p.index)
	if err != nil {
		return n, evidence, err
	}
	p.judge(&n, node, &evidence)
	if n.Action == Unchanged && n.Message == "" {
		n.Message = p.unlisted(node, m)
	}
	return n, evidence, nil
}

// told is the error with the reason that an Event would have.
func (p *planner) told(ctx context.Context, node *corev1.Node, err error) error {
	if _, told := p.instances.metadata(ctx, node); told != nil {
		return told
	}
	return err
}

func (n *NodePlan) stuck(err error) {
	n.Action, n.Message = Stuck, err.Error()
	var f *finding.Finding
	if errors.As(err, &f) {
		n.Reason, n.Message = f.Reason, f.Message
	}
}

// update says what upstream's node controller and the follower would write.
func (p *planner) update(ctx context.Context, n *NodePlan, node *corev1.Node, m *config.Machine) {
	metadata, err := p.instances.metadata(ctx, node)
	if err != nil {
		n.stuck(err)
		return
	}
	add := func(field, old, next string) {
		if old != next {
			n.Changes = append(n.Changes, Change{field, old, next})
		}
	}
	add("providerID", node.Spec.ProviderID, metadata.ProviderID)
	add("addresses", addressText(node.Status.Addresses), addressText(metadata.NodeAddresses))
	if m != nil {
		n.Changes = append(n.Changes, labelChanges(node, m, p.dropped(m.ID))...)
	}
	switch {
	case uninitialized(node):
		n.Action = Initialize
	case len(n.Changes) > 0:
		n.Action = Update
	}
}
