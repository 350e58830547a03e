package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/agreement"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// clockWarns and clockFails are by how much clocks may differ; an HTTP date counts whole seconds.
const clockWarns, clockFails = 30 * time.Second, 5 * time.Minute

// clocks finds machines whose kubelet renews its Lease by a clock that is not the API server's. The machine on which
// the doctor runs says so itself (clockOff). Where most differ, which clock is off is not decided.
func clocks(v *view) []finding.Finding {
	var list []finding.Finding
	agree := 0
	silent := map[string]bool{}
	for _, s := range v.report.Nodes {
		silent[s.Node] = s.Cause != nil && (s.Cause.ID == finding.KubeletSilent || s.Cause.ID == finding.MachineOff)
	}
	servers, names := serverClocks(v.Snapshot, silent)
	for i := range v.Heartbeats {
		l := &v.Heartbeats[i]
		ahead, known := nodes.ClockAhead(l)
		here := v.Host != nil && v.Host.Clock != nil && v.Host.Node == l.Name
		if !known || here || v.byName[l.Name] == nil || silent[l.Name] || slices.Contains(names, l.Name) {
			continue
		}
		if ahead.Abs() < clockWarns {
			agree++
			continue
		}
		list = append(list, clockFinding("Node/"+l.Name, ahead, "the API server, as its kubelet renews its Lease"))
	}
	if len(list) > 1 && len(list) > agree {
		for i := range list {
			list[i].Message += "; most other clocks differ too, so the API server's clock may be wrong"
		}
	}
	return append(servers, list...)
}

// serverClocks finds an API server whose clock is off: kubelets whose own time is right have renewed their Leases there, and it has written
// another time. That our clock is right, most Leases show: both their times are of now. It returns these kubelets' Nodes, too.
func serverClocks(s *Snapshot, silent map[string]bool) (list []finding.Finding, names []string) {
	right, all := 0, 0
	var off []time.Duration // by how much it is ahead
	for i := range s.Heartbeats {
		l := &s.Heartbeats[i]
		ahead, known := nodes.ClockAhead(l)
		if !known || silent[l.Name] {
			continue
		}
		all++
		switch now := s.since(l.Spec.RenewTime.Time).Abs() < clockWarns; {
		case now && ahead.Abs() < clockWarns:
			right++
		case now:
			off, names = append(off, -ahead), append(names, l.Name)
		}
	}
	if len(off) == 0 {
		return nil, nil
	}
	object := "Service/default/kubernetes" // which of them, is not known
	for i := range s.Heartbeats {
		l := &s.Heartbeats[i]
		at := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == l.Name && nodes.IsControlPlane(&n) })
		if ahead, known := nodes.ClockAhead(l); at >= 0 && known && ahead.Abs() < clockWarns && (-s.since(l.Spec.RenewTime.Time)-off[0]).Abs() < clockWarns {
			object = "Node/" + l.Name // its kubelet has the same wrong time
			all--
			break
		}
	}
	if right <= all/2 {
		return nil, nil
	}
	f := clockFinding(object, off[0], "Nodes whose kubelets renew their Leases at its API server, such as "+names[0])
	return []finding.Finding{f}, names
}

// kubeletsAnswer says that those which did not tell what they run with have answered, or were not to be asked: hardened ones
// (enableDebuggingHandlers: false) have no such page.
func kubeletsAnswer(n *NotSeen) bool {
	return slices.Contains([]metav1.StatusReason{
		metav1.StatusReasonForbidden, metav1.StatusReasonNotFound, metav1.StatusReasonMethodNotAllowed,
	}, n.Reason)
}

// unreachedKubelets says that the API server reaches none of several kubelets: then it is its own way, or its certificate. One that is
// reached by none, of a Node, package nodes finds.
func unreachedKubelets(s *Snapshot) []finding.Finding {
	n := s.notSeen(partKubelets)
	if n == nil || len(s.Settings.Kubelets)+len(s.Flags) > 0 || len(s.Nodes) < 2 {
		return nil
	}
	var why string
	switch _, text, dials := strings.Cut(n.Message, "error trying to reach service: "); {
	case dials && strings.HasPrefix(text, "dial "):
		why = text
	case n.Reason == metav1.StatusReasonUnauthorized: // to us the API server answers
		why = "they do not accept its certificate: Unauthorized"
	default:
		return nil
	}
	_, failed, named := strings.Cut(n.Message, ", such as ")
	failed, _, _ = strings.Cut(failed, ": ")
	known := func(n corev1.Node) bool { return n.Name == failed && nodes.IsControlPlane(&n) }
	if named && len(kubeletsToAsk(s.Nodes)) >= agreement.MostKubelets && !slices.ContainsFunc(s.Nodes, known) {
		return nil // the first is named: those of control planes may not be among them, which other versions have not asked first
	}
	var list []finding.Finding
	for i := range s.Nodes {
		if !nodes.IsControlPlane(&s.Nodes[i]) {
			continue
		}
		f := finding.KubeletUnreached.New("Node/"+s.Nodes[i].Name, "the API server gets an answer from no kubelet: "+nodes.Shorten(why))
		f.Next = "kubectl get --raw /api/v1/nodes/" + cmp.Or(failed, s.Nodes[i].Name) + "/proxy/healthz"
		list = append(list, f)
	}
	return list
}

// clockFinding says by how much a machine's clock differs from another's.
func clockFinding(object string, ahead time.Duration, other string) finding.Finding {
	word := "ahead of"
	if ahead < 0 {
		word = "behind"
	}
	off := ahead.Abs().Round(time.Second)
	f := finding.ClockOff.New(object, fmt.Sprintf("its clock is %s %s that of %s", off, word, other))
	if off >= clockFails {
		f.Severity = finding.SeverityError
	}
	f.Next = "timedatectl timesync-status; chronyc tracking"
	switch kind, name, _ := strings.Cut(object, "/"); kind {
	case "Node":
		f.Next = "on " + name + ": " + f.Next
	case "Service":
		f.Next = "on each control plane: " + f.Next
	}
	return f
}

// byClock says what a clock explains on its machine: certificates whose time has come by the API server's.
func byClock(v *view, _ *finding.Finding, explains []finding.ID) []finding.ID {
	if v.Host == nil || v.Host.Clock == nil {
		return nil
	}
	right := v.Taken.Add(-time.Duration(v.Host.Clock.Ahead * float64(time.Second)))
	for _, c := range v.Host.Certificates {
		seems, is := c.End.Before(v.Taken) || c.Begin.After(v.Taken), c.End.Before(right) || c.Begin.After(right)
		if seems && is {
			return nil
		}
	}
	return explains
}
