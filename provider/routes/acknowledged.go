package routes

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// former says that a report is that of a machine before this Node: its kernel may have none of these routes by now.
func (r report) former(node *corev1.Node) bool { return r.owner != "" && r.owner != node.UID }

// acknowledged returns no error if the range of a Node's pods can be reached: the agent of that Node has set its routes,
// and those who have no route to an address of the Node are not most of the live agents, or only one. That one, or those
// few, are dissent: a single agent must not make others' Nodes unavailable, whatever it says. One that is dead is not
// asked about others, and its own Node keeps what it has: so does its kernel. Reports of Nodes that exists does not know
// are only not deleted yet.
func (r *reports) acknowledged(now time.Time, node *corev1.Node, destination string, exists func(node string) bool) (
	dissent, err error,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if prefix, err := netip.ParsePrefix(destination); err == nil {
		destination = prefix.Masked().String() // as agents write it
	}
	if err := r.own(node, destination); err != nil {
		return nil, err
	}
	asked, missing, addresses := 0, []string(nil), nodestatus.InternalIPs(node)
	for name, said := range r.byNode {
		if name != node.Name && (!r.alive.Live(now, name) || said.ofItself || !exists(name)) {
			continue
		}
		asked++
		if !said.reaches(node.Name, addresses, destination) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	first := slices.Min(missing)
	err = fmt.Errorf("%d of %d agents have no route to Node/%s, first that of Node/%s: %s", len(missing), asked, node.Name,
		first, r.byNode[first].why(destination))
	if len(missing) < 2 || 2*len(missing) <= asked {
		return err, nil
	}
	return nil, err
}

// own returns what is wrong with a Node by its own agent.
func (r *reports) own(node *corev1.Node, destination string) error {
	own, there := r.byNode[node.Name]
	switch {
	case !there:
		return fmt.Errorf("no node agent has ever reported from Node/%s", node.Name)
	case own.former(node):
		return fmt.Errorf("no node agent has reported from Node/%s since the Node was created: the report is older",
			node.Name)
	case len(own.routes)+len(own.problems) == 0:
		return fmt.Errorf("the agent of Node/%s has set no route yet, not even for its own pods", node.Name)
	case own.ofItself:
		return fmt.Errorf("from Node/%s, most others are out of reach: %w", node.Name, own.firstProblem())
	case !own.reaches(node.Name, nodestatus.InternalIPs(node), destination):
		return fmt.Errorf("the agent of Node/%s has no route for its own pods: %s", node.Name, own.why(destination))
	}
	return nil
}

// reaches reports whether there is a route to the pods of the Node that has these addresses.
func (r report) reaches(node string, addresses []netip.Addr, destination string) bool {
	route, has := r.routes[destination]
	return has && route.Node == node && leadsTo(route, addresses)
}

// why there is none.
func (r report) why(destination string) string {
	if problem, known := r.problems[destination]; known {
		return problem.Reason + ": " + problem.Message
	}
	return "it has not reported one yet"
}

// leadsTo reports whether the next hop is still one of the Node's addresses. Its own agent reports none.
func leadsTo(route v1alpha1.AgentRoute, addresses []netip.Addr) bool {
	if route.Via == "" {
		return true
	}
	via, err := netip.ParseAddr(route.Via)
	return err == nil && slices.Contains(addresses, via)
}

// firstProblem is one of them, always the same.
func (r report) firstProblem() error {
	var list []v1alpha1.RouteProblem
	for _, problem := range r.problems {
		list = append(list, problem)
	}
	first := slices.MinFunc(list, func(a, b v1alpha1.RouteProblem) int {
		return slices.Compare([]string{a.Destination, a.Node}, []string{b.Destination, b.Node})
	})
	return fmt.Errorf("route to %s: %s: %s", first.Destination, first.Reason, first.Message)
}
