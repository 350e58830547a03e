package rehearsal

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// shadow holds the Nodes as the program is shown them in one pass, and what it has written to them.
type shadow struct {
	// view changes a Node on its way to the program.
	view func(*corev1.Node)
	// names are the Nodes that are to have an answer.
	names []string

	mu sync.Mutex
	// latest are the Nodes as the cluster has them.
	latest map[string]*corev1.Node
	// written are those that the program has written, as it left them. It is shown them from then on, or it would
	// initialize them again at every event.
	written map[string]*corev1.Node
	// untainted, off and deleted are what it has done to them.
	untainted, off, deleted map[string]bool
	// marks count how often each phantom was written.
	marks map[string]int
	// refused are requests that got no answer but no.
	refused map[string]int
	pending int
	// changed is when the last write came.
	changed time.Time
}

func newShadow(nodes []corev1.Node, view func(*corev1.Node)) *shadow {
	s := &shadow{
		view: view, latest: map[string]*corev1.Node{}, written: map[string]*corev1.Node{}, untainted: map[string]bool{},
		off: map[string]bool{}, deleted: map[string]bool{}, marks: map[string]int{}, refused: map[string]int{},
		changed: time.Now(),
	}
	for i := range nodes {
		s.names = append(s.names, nodes[i].Name)
		s.latest[nodes[i].Name] = &nodes[i]
	}
	return s
}

// uninitialized shows a Node as a kubelet in external mode registers it. A provider ID stays: it cannot be changed, and
// the provider looks the machine up by it.
func uninitialized(n *corev1.Node) {
	n.Spec.Taints = append(without(n.Spec.Taints, v1alpha1.UninitializedTaint),
		corev1.Taint{Key: v1alpha1.UninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule})
}

// silentWith shows a Node as initialized, with its provider ID or else the one of the first pass, and its kubelet as
// silent: the lifecycle controller asks the cloud about no other.
func silentWith(first *shadow) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Taints = without(without(n.Spec.Taints, v1alpha1.UninitializedTaint), v1alpha1.ShutdownTaint)
		if w := first.left(n.Name); n.Spec.ProviderID == "" && w != nil {
			n.Spec.ProviderID = w.Spec.ProviderID
		}
		setReady(n, corev1.ConditionUnknown)
	}
}

// silentOf shows as silent only the Nodes that are named. The controller asks about no other, and comes round quickly.
func silentOf(names map[string]bool, silent func(*corev1.Node)) func(*corev1.Node) {
	return func(n *corev1.Node) {
		silent(n)
		if !names[n.Name] {
			setReady(n, corev1.ConditionTrue)
		}
	}
}

func setReady(n *corev1.Node, status corev1.ConditionStatus) {
	n.Status.Conditions = slices.DeleteFunc(slices.Clone(n.Status.Conditions), func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady
	})
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: "Rehearsal", LastTransitionTime: metav1.Now(),
	})
}

func without(taints []corev1.Taint, key string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == key })
}

func has(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

// show takes a Node from the cluster, and returns what the program sees.
func (s *shadow) show(n *corev1.Node) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[n.Name] = n
	return s.shown(n.Name)
}

// forget takes a Node away that has left the cluster.
func (s *shadow) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.latest, name)
}

// get returns what the program sees of a Node; nil where there is none.
func (s *shadow) get(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown(name)
}

func (s *shadow) shown(name string) *corev1.Node {
	n := s.latest[name]
	if n == nil {
		return nil
	}
	if w := s.written[name]; w != nil && w.UID == n.UID {
		w = w.DeepCopy()
		w.ResourceVersion = n.ResourceVersion
		return w
	}
	n = n.DeepCopy()
	n.APIVersion, n.Kind = "v1", "Node"
	n.ManagedFields = nil
	if _, phantom := s.marks[name]; !phantom {
		s.view(n)
	}
	return n
}

// left is a Node as the program left it; nil where it did nothing.
func (s *shadow) left(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written[name]
}

// write takes what the program has made of a Node that it was shown.
func (s *shadow) write(before, after *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = time.Now()
	if _, phantom := s.marks[before.Name]; phantom {
		s.marks[before.Name]++
		return
	}
	if has(before, v1alpha1.UninitializedTaint) && !has(after, v1alpha1.UninitializedTaint) {
		s.untainted[before.Name] = true
	}
	if !has(before, v1alpha1.ShutdownTaint) && has(after, v1alpha1.ShutdownTaint) {
		s.off[before.Name] = true
	}
	s.written[before.Name] = after
}

func (s *shadow) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = time.Now()
	s.deleted[name] = true
}

func (s *shadow) refuse(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[what]++
}

// begin and end count writes that are being answered.
func (s *shadow) begin(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending += n
}

// Phantoms are Nodes that only the program sees: Ready, and with the taint of a machine that is switched off, which the
// lifecycle controller takes away without asking the cloud. Its marks tell when it has come round. With several of them
// the next round is seen near its beginning: it visits Nodes in an order that differs each time.
const phantoms = 4

func (s *shadow) addPhantoms() {
	for i := range phantoms {
		n := &corev1.Node{}
		n.Name = fmt.Sprintf("ccmadm-rehearsal-%d", i+1)
		n.UID = "00000000-0000-0000-0000-000000000000"
		n.CreationTimestamp = metav1.Now()
		n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.ShutdownTaint, Effect: corev1.TaintEffectNoSchedule}}
		setReady(n, corev1.ConditionTrue)
		s.latest[n.Name], s.marks[n.Name] = n, 0
	}
}

// phantom is one of them; nil for another name.
func (s *shadow) phantom(name string) *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.marks[name]; !there {
		return nil
	}
	return s.shown(name)
}

// allPhantoms are those that there are, with the resource version of the watch that they come in.
func (s *shadow) allPhantoms(version string) []*corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*corev1.Node
	for name := range s.marks {
		s.latest[name].ResourceVersion = version
		list = append(list, s.shown(name))
	}
	return list
}
