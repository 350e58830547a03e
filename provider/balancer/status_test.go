package balancer

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// told is a pass with all that Services are told. Agents announce the addresses, and nothing else.
func (w *world) told(announced ...string) {
	s := w.snapshot()
	r := evaluation.Reports{Announced: map[netip.Addr]bool{}}
	for _, text := range announced {
		r.Announced[netip.MustParseAddr(text)] = true
	}
	s.Announced = r.Announced
	e := &evaluation.Inputs{
		Now: w.now, Plan: allocator.Allocate(s), Pools: s.Pools, Machines: evaluation.NewMachines(allocator.HostsOf(w.nodes, nil), w.agents, nil), Reports: r,
		Missing: map[evaluation.Awaited]time.Time{},
	}
	e.Machines.Proxy, e.Machines.Plane = w.proxy, w.plane
	statuses := e.Statuses()
	for _, do := range w.steps(e.Plan) {
		do()
	}
	for name, st := range statuses {
		w.services[name] = st.After
	}
	w.now = w.now.Add(evaluation.AnnounceTime)
}

func (w *world) has(name string) string {
	return evaluation.Join(allocator.Earlier(w.services[types.NamespacedName{Namespace: "default", Name: name}], true))
}

func (w *world) setNodes(addresses ...string) {
	w.nodes = nil
	for _, address := range addresses {
		w.nodes = append(w.nodes, &corev1.Node{Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
		}})
	}
}

func withStatus(address string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}} }
}

// Until the first pool's address is announced, a Service follows the Nodes, on the ports that it has of them.
func TestStatus_FollowsNodes(t *testing.T) {
	w := newWorld()
	w.setNodes("198.18.0.1", "198.18.0.2", "198.18.0.3")
	w.add("web")
	expect := func(when, name, want string) {
		t.Helper()
		if got := w.has(name); got != want {
			t.Errorf("%s: Service %s has %q, want %q", when, name, got, want)
		}
	}
	w.told()
	expect("without pools", "web", "198.18.0.1,198.18.0.2,198.18.0.3")
	w.pools = []*v1alpha1.AddressPool{addressPool("lan", "192.0.2.50")}
	w.add("late", onPort(81)) // the pool is used up
	w.told()
	w.told()
	expect("no agent announces", "web", "198.18.0.1,198.18.0.2,198.18.0.3")
	w.setNodes("198.18.0.1", "198.18.0.2")
	w.add("same-port", annotated(v1alpha1.LevelAnnotation, string(v1alpha1.LevelNodeIP)))
	w.told()
	w.told()
	expect("a Node has gone", "web", "198.18.0.1,198.18.0.2")
	expect("its port is taken", "same-port", "")
	expect("it never had any", "late", "")
	w.setNodes("198.18.0.1", "198.18.0.9")
	w.told()
	w.told()
	expect("a Node has another address", "web", "198.18.0.1,198.18.0.9")
	ready := w.nodes
	w.nodes = nil
	for _, node := range ready {
		node = node.DeepCopy()
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
		w.nodes = append(w.nodes, node)
	}
	w.told()
	expect("no Node is ready", "web", "198.18.0.1,198.18.0.9")
	w.nodes = ready
	w.told("192.0.2.50")
	expect("announced", "web", "192.0.2.50")
	w.told("192.0.2.50")
	expect("the port is free", "same-port", "198.18.0.1,198.18.0.9")
	w.told()
	expect("announced no more", "web", "192.0.2.50")
}

// What somebody else has published stays until there is something to put there; what was ours, and is not, goes.
func TestStatus_KeepsWhatIsNotOurs(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.50-192.0.2.51"))
	w.setNodes("198.18.0.1")
	w.add("theirs", withStatus("203.0.113.9"))
	for range 3 {
		w.told()
		if got := w.has("theirs"); got != "203.0.113.9" {
			t.Fatalf("no agent announces, and the status has %q", got)
		}
	}
	w.told("192.0.2.50", "192.0.2.51")
	first := w.has("theirs")
	if first != "192.0.2.50" && first != "192.0.2.51" {
		t.Fatalf("announced, and the status has %q", first)
	}
	for _, s := range w.services {
		s.Annotations[v1alpha1.ReassignAnnotation] = "true"
	}
	w.told()
	if got := w.has("theirs"); got != "" {
		t.Errorf("the former address is somebody else's soon, and the status has %q", got)
	}
}

// A Service keeps its ports of Nodes, whoever listens there, also when Nodes go.
func TestStatus_KeepsPorts(t *testing.T) {
	w := newWorld()
	w.setNodes("198.18.0.1", "198.18.0.2")
	w.add("web")
	w.told()
	w.agents = []*v1alpha1.NodeAgent{{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: v1alpha1.NodeAgentStatus{Listening: []string{"TCP/80"}},
	}}
	for _, nodes := range [][]string{{"198.18.0.1", "198.18.0.2"}, {"198.18.0.1"}, {"198.18.0.7"}} {
		w.setNodes(nodes...)
		w.told()
		if got := w.has("web"); got == "" {
			t.Errorf("with Nodes %v it has no address", nodes)
		}
	}
}
