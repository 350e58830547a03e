package nodes

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// machines finds the machine of a Node in the inventory.
type machines struct {
	store   *inventory.Store
	metrics *metrics

	mu     sync.Mutex
	claims map[string]claim     // by provider ID
	held   map[string]types.UID // Nodes that could not be initialized, by name
	came   map[string]types.UID // Nodes that registered with a provider ID of ours and without the taint, by name
}

// claim is a provider ID on its way to a Node.
type claim struct {
	node string
	uid  types.UID
}

func newMachines(store *inventory.Store, metrics *metrics) *machines {
	return &machines{store: store, metrics: metrics, claims: map[string]claim{}, held: map[string]types.UID{}, came: map[string]types.UID{}}
}

// find returns the inventory and the machine of a Node. No machine and no error
// means a Node that is to be adopted, or one of another provider.
func (m *machines) find(node *corev1.Node) (*inventory.Inventory, *config.Machine, error) {
	status := m.store.Status()
	if status.Inventory == nil {
		why := "it has not been read yet"
		if status.Problem != nil {
			why = status.Problem.Error()
		}
		return nil, nil, finding.NoInventory.Errorf("there is no inventory: %s", why)
	}
	i := status.Inventory
	machine, rule, err := i.Match(inventory.FactsOf(node))
	switch {
	case errors.Is(err, inventory.ErrAmbiguous):
		m.metrics.match("ambiguous")
		return i, nil, finding.AmbiguousMachine.Errorf("%w: correct the match fields in the inventory", err)
	case err != nil:
		m.metrics.match("contradiction")
		return i, nil, finding.OtherMachine.Errorf("%w: correct its match.systemUUID if the board was replaced", err)
	case machine != nil:
		m.metrics.match(string(rule))
	default:
		m.metrics.match("none")
	}
	if !m.settled(node) {
		err = believe(i, machine, rule, node)
	}
	return i, machine, err
}

func orNone(s string) string {
	if s == "" {
		return "(it shows none)"
	}
	return s
}

// take gives a machine's provider ID to a Node, unless another Node has it that is alive, or that the inventory names:
// that one, or this, runs on a clone, or says what is not true. A reboot of the one must not hand its identity to the
// other. Of two that have it already, the older Node keeps it: only the API server writes when it was created.
func (m *machines) take(id string, listed *config.Machine, node *corev1.Node, nodes cache.Indexer) error {
	has := node.Spec.ProviderID == id && m.settled(node)
	keeps := func(other *corev1.Node) bool {
		this, that := listed.Named(node.Name), listed.Named(other.Name)
		switch {
		case this != that && (that || has):
			return that
		case has:
			return alive(other) && older(other, node)
		}
		return alive(other)
	}
	for _, identity := range []string{id, systemUUID(node.Status.NodeInfo)} {
		if identity == "" {
			continue
		}
		others, err := nodes.ByIndex(identityIndex, identity)
		if err != nil {
			return fmt.Errorf("find Nodes that are %s: %w", identity, err)
		}
		for _, object := range others {
			other, ok := object.(*corev1.Node)
			if !ok || other.Name == node.Name {
				continue
			}
			// A Node that became another machine shares a UUID, and no more. One that is no machine yet only says that it has it, and
			// takes the ID neither from the Node that has it, nor from the one of the machine's name, which is in its credentials.
			waits := identity == id || !has && other.Spec.ProviderID == ""
			says := !m.settled(other) && listed.Named(node.Name) && !listed.Named(other.Name)
			if waits && !says && keeps(other) {
				return taken(id, other.Name)
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.claims[id]; ok && c.uid != node.UID {
		object, exists, err := nodes.GetByKey(c.node)
		other, ok := object.(*corev1.Node)
		if err == nil && exists && ok && other.UID == c.uid && !m.hasCome(other) && m.stillIs(other, id, listed) && keeps(other) {
			return taken(id, c.node)
		}
	}
	m.claims[id] = claim{node.Name, node.UID}
	if m.hasCome(node) { // what else it shows is the machine's: from now on it is as one that was initialized
		delete(m.came, node.Name)
	}
	return nil
}

// stillIs reports whether a Node that was given the machine's provider ID has it, or is that machine in the inventory of now: a
// correction of the inventory frees the ID for the right Node.
func (m *machines) stillIs(node *corev1.Node, id string, listed *config.Machine) bool {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID == id
	}
	now, _, err := m.store.Status().Inventory.Match(inventory.FactsOf(node))
	return err == nil && now != nil && now.ID == listed.ID
}

// hold remembers whether a Node could not be initialized.
func (m *machines) hold(node *corev1.Node, held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held {
		m.held[node.Name] = node.UID
	} else {
		delete(m.held, node.Name)
	}
}

func (m *machines) isHeld(node *corev1.Node) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid, held := m.held[node.Name]
	return held && uid == node.UID
}

// comes notes a Node that registered with a provider ID of ours and without the taint: its kubelet gave it the ID, and no initialization
// has looked for anything that supports that.
func (m *machines) comes(node *corev1.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.came[node.Name] = node.UID
}

// hasCome reports whether the Node is noted so. The caller holds the lock.
func (m *machines) hasCome(node *corev1.Node) bool {
	uid, came := m.came[node.Name]
	return came && uid == node.UID
}

// settled reports whether the provider ID of a Node was settled by its initialization, as far as this process can tell.
func (m *machines) settled(node *corev1.Node) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !uninitialized(node) && !m.hasCome(node)
}

// prune forgets Nodes that are gone, also where another one has their name.
func (m *machines) prune(nodes cache.Indexer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := func(name string, _ types.UID) bool {
		_, exists, err := nodes.GetByKey(name)
		return err == nil && !exists
	}
	maps.DeleteFunc(m.held, gone)
	maps.DeleteFunc(m.came, gone)
	maps.DeleteFunc(m.claims, func(_ string, c claim) bool {
		object, exists, err := nodes.GetByKey(c.node)
		node, ok := object.(*corev1.Node)
		return err == nil && (!exists || ok && node.UID != c.uid)
	})
}

// older says which of two Nodes was there first. Only the API server writes either.
func older(a, b *corev1.Node) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

func taken(id, by string) error {
	return finding.MachineTaken.Errorf("%s is Node/%s, too: if one of them is a clone, give it a systemUUID of its own; "+
		"if it was renamed, list the new name as hostname, and the old Node is removed once its kubelet stops posting status", id, by)
}

// alive reports whether a kubelet still speaks for the Node: kube-controller-manager
// calls it Unknown when it does not.
func alive(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status != corev1.ConditionUnknown
		}
	}
	return true
}
