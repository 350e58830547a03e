package announce

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// silentFor is how long a Node is not Ready before its agent has no vote any more.
const silentFor = 40 * time.Second

// SetMembers fills in who has a vote, and where. The control planes come first: the first of all decides in case of a
// draw. Fresh says that the API server has been heard lately; if not, the Members stay empty, which means those of
// before, since nothing is known of Nodes that do not report.
func (v *View) SetMembers(now time.Time, fresh bool, seen Sightings) {
	v.Addresses = map[string]netip.Addr{}
	v.Gone = map[string]bool{}
	seen.Forget(func(name string) bool { return v.Nodes[name] != nil })
	var reporting []string
	for name, node := range v.Nodes {
		if addresses := nodestatus.InternalIPs(node); len(addresses) > 0 {
			v.Addresses[name] = addresses[0]
		}
		if outOfService(node) {
			v.Gone[name] = true
			continue
		}
		agent := v.Agents[name]
		if agent == nil {
			continue
		}
		if agent.Silent() || unheard(node, now, seen) {
			v.Silent = append(v.Silent, name)
		}
		reporting = append(reporting, name)
	}
	if fresh {
		slices.Sort(v.Silent)
		v.sortByAge(reporting)
		v.All = v.voters(reporting)
		v.Members = v.voters(slices.DeleteFunc(reporting, func(name string) bool { return slices.Contains(v.Silent, name) }))
	}
}

// sortByAge puts control planes first, and of each kind the oldest NodeAgent.
func (v *View) sortByAge(nodes []string) {
	slices.SortFunc(nodes, func(a, b string) int {
		return cmp.Or(v.rank(a)-v.rank(b), v.Agents[a].CreationTimestamp.Compare(v.Agents[b].CreationTimestamp.Time), strings.Compare(a, b))
	})
}

// voters are those of the Nodes, which are sorted by age, that have a vote: control planes, and then the oldest, of the zone
// that has the fewest. So votes move seldom, and most of them are left where a zone is lost.
func (v *View) voters(byAge []string) []string {
	oldest := slices.Clone(byAge)
	zone := func(name string) string { return v.Nodes[name].Labels[corev1.LabelTopologyZone] }
	var chosen []string
	have := map[string]int{} // of the chosen, by zone
	for len(oldest) > 0 && len(chosen) < v1alpha1.MaxVotes {
		best := 0
		for i, name := range oldest {
			if v.rank(name) == v.rank(oldest[0]) && have[zone(name)] < have[zone(oldest[best])] {
				best = i
			}
		}
		chosen = append(chosen, oldest[best])
		have[zone(oldest[best])]++
		oldest = slices.Delete(oldest, best, best+1)
	}
	slices.SortFunc(chosen, func(a, b string) int { return cmp.Or(v.rank(a)-v.rank(b), strings.Compare(a, b)) })
	return chosen
}

// rank is 0 for control planes, and 1 for other Nodes.
func (v *View) rank(name string) int {
	if _, is := v.Nodes[name].Labels[v1alpha1.ControlPlaneLabel]; is {
		return 0
	}
	return 1
}

// GoneOf are those of the members who are off for good: their Nodes were deleted, or an operator says so.
func (v *View) GoneOf(members []string) map[string]bool {
	gone := map[string]bool{}
	for _, name := range members {
		if v.gone(name) {
			gone[name] = true
		}
	}
	return gone
}

func (v *View) gone(name string) bool {
	return v.Gone[name] || len(v.Nodes) > 0 && v.Nodes[name] == nil
}

// outOfService is what an operator says of a Node that is known to be off.
func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// unheard reports whether the Node is not Ready for [silentFor]. An agent that starts goes by the clock of the machine that said so, too: then
// a Node that has been off for long has no vote from the start.
func unheard(node *corev1.Node, now time.Time, seen Sightings) bool {
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if at < 0 {
		return false
	}
	c := &node.Status.Conditions[at]
	ready := c.Status == corev1.ConditionTrue
	least, _ := seen.Age(node.Name, ready, c.LastTransitionTime.Time, now)
	return !ready && least > silentFor
}

// SetBound fills in what binds an agent that starts, according to the reports as the API server has them now. Where each agent has a vote,
// and one that is silent is of an earlier release, which reported no list: all of them are a list, too. Any other one without a list never had
// a vote. An agent whose announcements are apart is of no such release.
func (v *View) SetBound(agents []v1alpha1.NodeAgent) {
	reports, earlier := map[string][]v1alpha1.VoterList{}, map[string]bool{}
	for i := range agents {
		reports[agents[i].Name] = agents[i].Status.Voters
		earlier[agents[i].Name] = len(agents[i].Status.Voters) == 0 && !agents[i].Status.AnnouncementsApart
	}
	v.Bound = quorum.Bound(v.Node, reports, v.gone)
	unsaid := func(name string) bool { return earlier[name] && slices.Contains(v.All, name) }
	if len(agents) <= v1alpha1.MaxVotes && slices.ContainsFunc(v.Silent, unsaid) && len(v.Bound) > 0 {
		v.Bound = slices.Insert(v.Bound, 0, v.All)
	}
}
