package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Route is a route to the pods of one Node in the kernel of another, as its agent reports it.
type Route struct {
	// Node has the route.
	Node string `json:"node"`
	// Destination is the pod network, Via the next hop, and To the Node with the pods.
	Destination string `json:"destination"`
	Via         string `json:"via"`
	To          string `json:"to"`
	// Live says that the report is no older than a minute.
	Live bool `json:"live"`
}

// Routes lists what agents report, by Node.
func (s *Snapshot) Routes() []Route {
	var list []Route
	for i := range s.Agents {
		a := &s.Agents[i]
		for _, r := range s.reported(a.Name).Routes {
			list = append(list, Route{
				Node: a.Name, Destination: finding.Clean(r.Destination), Via: finding.Clean(r.Via), To: finding.Clean(r.Node),
				Live: s.live(a),
			})
		}
	}
	slices.SortStableFunc(list, func(a, b Route) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.To, b.To), cmp.Compare(a.Destination, b.Destination))
	})
	return list
}

// CheckRoutes compares what agents report with what every Node needs: a route to each pod network of every other, by an
// address of that Node. wanted is how many that are, found how many of them are there. Where agents set routes, a Node
// with pods whose agent never came up needs them, too.
func (s *Snapshot) CheckRoutes() (wanted, found int, problems []finding.Finding) {
	routed := slices.ContainsFunc(s.Reported, func(r v1alpha1.NodeRoutes) bool { return len(r.Routes)+len(r.Problems) > 0 })
	all := 0
	for i := range s.Nodes {
		all += len(podNetworks(&s.Nodes[i]))
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		a, own := s.agent(n.Name), len(podNetworks(n))
		needs := all - own
		switch {
		case a == nil && routed && own > 0 && s.wantsAgent(n):
			wanted += needs
			problems = append(
				problems,
				say(finding.AgentSilent, n.Name, fmt.Sprintf("no agent has ever reported from here; routes missing: %d", needs)),
			)
		case a == nil:
		case !s.live(a):
			problems = append(
				problems,
				say(finding.AgentSilent, n.Name, fmt.Sprintf("no report since %s", s.silence(a).Round(1e9))),
			)
		default:
			lacks := s.lacks(n.Name)
			wanted += needs
			found += needs - len(lacks)
			problems = append(problems, lacks...)
		}
	}
	return wanted, found, problems
}

// wantsAgent says that the node agent's DaemonSet has a pod for the Node, which has had time to begin.
func (s *Snapshot) wantsAgent(n *corev1.Node) bool {
	return n.Labels[corev1.LabelOSStable] == "linux" && s.Now.Sub(n.CreationTimestamp.Time) > Patience
}

// lacks are the routes that are not among those which the Node's agent reports.
func (s *Snapshot) lacks(node string) []finding.Finding {
	var problems []finding.Finding
	reported := s.reported(node)
	for i := range s.Nodes {
		to := &s.Nodes[i]
		if to.Name == node {
			continue
		}
		for _, cidr := range podNetworks(to) {
			if problem := missing(reported, to, cidr); problem != nil {
				problems = append(problems, *problem)
			}
		}
	}
	return problems
}

// missing is what keeps a route out of what an agent reports, or nil where it is there.
func missing(reported v1alpha1.NodeRoutes, to *corev1.Node, cidr string) *finding.Finding {
	for _, r := range reported.Routes {
		if r.Destination == cidr &&
			slices.ContainsFunc(to.Status.Addresses, func(addr corev1.NodeAddress) bool { return same(addr.Address, r.Via) }) {
			return nil
		}
	}
	for _, p := range reported.Problems {
		if p.Destination == cidr {
			id := finding.RouteMissing
			if kind, ok := finding.Lookup(p.Reason); ok {
				id = kind.ID
			}
			f := say(id, reported.Name, fmt.Sprintf("to %s, the pods of %s: %s", cidr, to.Name, finding.Clean(p.Message)))
			return &f
		}
	}
	f := say(finding.RouteMissing, reported.Name, fmt.Sprintf("to %s, the pods of %s", cidr, to.Name))
	return &f
}

// reported is what an agent says of its routes; nothing where there is no such object.
func (s *Snapshot) reported(node string) v1alpha1.NodeRoutes {
	for i := range s.Reported {
		if s.Reported[i].Name == node {
			return s.Reported[i]
		}
	}
	return v1alpha1.NodeRoutes{ObjectMeta: metav1.ObjectMeta{Name: node}}
}

func say(id finding.ID, node, message string) finding.Finding {
	return id.New("Node/"+node, message)
}

// podNetworks are a Node's, in the form that routes have.
func podNetworks(n *corev1.Node) []string {
	var list []string
	for _, text := range n.Spec.PodCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p.Masked().String())
		}
	}
	return list
}
