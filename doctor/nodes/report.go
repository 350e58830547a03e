package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Report is what is known of nodes at one moment, and of what all of them depend on.
type Report struct {
	// Nodes are in the order asked for, or by name.
	Nodes []Status
	// Findings are what is wrong whatever the nodes' states are: no leader, no node.
	Findings []finding.Finding
	// Leader is the cloud-controller-manager that leads: the Lease's holder, or a ready pod that asks for no Lease. Empty where
	// there is no leader, and where the Lease could not be read, which Findings then has as [finding.LeaseUnknown].
	Leader string
}

// Verdict is what keeps the cluster from being well, each in a line, what to do next for each, and warnings. Without lines every
// Node is Addressed, its kubelet works, and there is a leader.
func (r *Report) Verdict() (lines, next, warnings []string) {
	lines, next = Tell(r.Failing(Addressed))
	for _, f := range r.Findings {
		if f.Severity == finding.SeverityWarning {
			warnings = append(warnings, f.Message)
			continue
		}
		lines = append(lines, f.Message)
		if f.Next != "" {
			next = append(next, f.Next)
		}
	}
	return lines, next, warnings
}

// addLeaderless says that there is no leader, unless that is what a node waits for. A cluster with neither Lease nor pod may
// have a manager under names of its own: that is a warning. So it is where the Lease outlived the manager in a cluster that
// has left external cloud mode.
func (r *Report) addLeaderless(e *evidence) {
	lease := e.leader.object()
	cause := e.managerCause()
	switch {
	case e.leader.err != nil:
		found := finding.LeaseUnknown.New(lease, e.leader.leaderless(e.now))
		cause = &found
	case cause == nil || cause.ID == finding.NotVisible || cause.ID == finding.NoPod && e.leader.lease != nil && !e.left:
		found := finding.LeaderSilent.New(lease, e.leader.leaderless(e.now))
		found.Next = e.logsCommand()
		cause = &found
	case cause.ID == finding.NoPod:
		cause.Severity = finding.SeverityWarning
	case cause.ID == finding.NoLeader || e.leader.unelected:
	default:
		cause.Message += "; " + e.leader.leaderless(e.now)
	}
	cause.Object, cause.Message = lease, finding.Clean(cause.Message)
	for _, s := range r.Nodes {
		if s.Cause != nil && (s.Cause.ID == cause.ID || s.Cause.ID == finding.NoPod) {
			return
		}
	}
	r.Findings = append(r.Findings, *cause)
}

// Failing are the nodes below a state, and those whose kubelet is not well.
func (r *Report) Failing(until State) []Status {
	var list []Status
	for _, s := range r.Nodes {
		kubelet := s.Cause != nil && s.Cause.Severity == finding.SeverityError &&
			slices.Contains([]finding.ID{finding.KubeletSilent, finding.KubeletNotExternal, finding.KubeletUnreached}, s.Cause.ID)
		if s.State < until || kubelet {
			list = append(list, s)
		}
	}
	return list
}

func finder(nodes []corev1.Node) func(string) *corev1.Node {
	byName := map[string]*corev1.Node{}
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	return func(name string) *corev1.Node { return byName[name] }
}

// Tell says what is wrong with nodes, those with the same trouble together, and for each trouble what to do next.
func Tell(statuses []Status) (lines, next []string) {
	type trouble struct {
		text, next string
		nodes      []string
	}
	var troubles []*trouble
	for _, s := range statuses {
		t := &trouble{text: s.State.String()}
		if s.Cause != nil {
			t.text, t.next = t.text+": "+s.Cause.Message, s.Cause.Next
		}
		i := slices.IndexFunc(troubles, func(o *trouble) bool { return o.text == t.text })
		if i < 0 {
			i, troubles = len(troubles), append(troubles, t)
		}
		troubles[i].nodes = append(troubles[i].nodes, s.Node)
	}
	for _, t := range troubles {
		lines = append(lines, some(t.nodes)+" "+t.text)
		if len(troubles) > 1 && t.next != "" {
			t.next = some(t.nodes) + ": " + t.next
		}
		if t.next != "" {
			next = append(next, t.next)
		}
	}
	return lines, next
}

func some(names []string) string { return Some(names, 5) }

// Some names as many as that, and counts the rest.
func Some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
