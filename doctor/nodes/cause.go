package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// explain fills in the causes of nodes that are not Ready.
func explain(e *evidence, find func(string) *corev1.Node, statuses []Status) {
	for i, s := range statuses {
		node := find(s.Node)
		if s.State != Ready && (!e.unmanaged || s.State != Registered || !nodestatus.IsReady(node)) {
			cause := causeOf(s, node, e)
			statuses[i].Cause = &cause
		}
	}
}

// causeOf returns the first cause that fits, in the order in which one has to look.
func causeOf(s Status, node *corev1.Node, e *evidence) finding.Finding {
	cause := func() finding.Finding {
		switch s.State {
		case Absent:
			cause := finding.NodeAbsent.New("", "there is no such Node: its kubelet has not registered")
			cause.Next = "on " + s.Node + ": systemctl restart kubelet, which registers a Node that was deleted; if it stays absent: " +
				"journalctl -u kubelet --no-pager -n 50"
			return cause
		case Registered:
			if e.unmanaged {
				return notReady(s, node, e)
			}
			return neverTainted(s, e)
		case Initialized:
			return noAddress(s, node, e)
		case Addressed:
			return notReady(s, node, e)
		default:
			return waitsForManager(s, node, e)
		}
	}()
	cause.Object, cause.Message, cause.Next = "Node/"+s.Node, finding.Clean(cause.Message), finding.Clean(cause.Next)
	return cause
}

// neverTainted offers the taint where there is a leader: only a leader removes it.
func neverTainted(s Status, e *evidence) finding.Finding {
	taint := "once a cloud-controller-manager is the leader: ccmadm doctor"
	if e.led() {
		taint = "kubectl taint node " + s.Node + " " + v1alpha1.UninitializedTaint + "=true:NoSchedule"
	}
	mode, known := e.flags[s.Node]
	if known && mode != "external" {
		cause := finding.ID("A1").New("", fmt.Sprintf("the kubelet runs with --cloud-provider=%q, not external, so the Node "+
			"has neither the taint nor a provider ID, and is not initialized", mode))
		cause.Reason = finding.NeverTainted.Kind().Reason
		cause.Next = "on " + s.Node + ": ccmadm node external; and last: " + taint
		return cause
	}
	if known {
		cause := finding.NeverTainted.New(
			"",
			"the Node has neither the taint nor a provider ID, so it is not initialized, and its kubelet "+
				"runs with --cloud-provider=external: it registered before it did, or the taint was removed by hand",
		)
		cause.Next = taint
		return cause
	}
	cause := finding.NeverTainted.New(
		"",
		"the Node has neither the taint nor a provider ID, so it is not initialized: its kubelet "+
			"registered without --cloud-provider=external, or the taint was removed by hand; a restart of the kubelet does not bring it back",
	)
	cause.Next = "on " + s.Node + ": ccmadm node show, then: " + taint
	return cause
}

func noAddress(s Status, node *corev1.Node, e *evidence) finding.Finding {
	if wrong := unknownNodeIPs(node); len(wrong) > 0 {
		return nodeIPCause(s, wrong)
	}
	if missing := e.deniedOn("nodes", "status"); len(missing) > 0 {
		return *e.missingCause(missing)
	}
	message := "initialized, but without an internal IP: neither the kubelet nor the provider has given one, or the " +
		"cloud-controller-manager may not patch nodes/status"
	if r := e.remarkOn(s.Node); r.about {
		message += "; the last line of its log about the node: " + r.line
	}
	cause := finding.NoInternalIP.New("", message)
	cause.Next = e.logsCommand() + " | grep " + s.Node
	return cause
}

func (e *evidence) deniedOn(resource, subresource string) []permission {
	return slices.DeleteFunc(slices.Clone(e.denied), func(p permission) bool {
		return p.resource != resource || p.subresource != subresource
	})
}

func nodeIPCause(s Status, wrong []string) finding.Finding {
	cause := finding.NodeIPUnknown.New("", "the kubelet's --node-ip "+strings.Join(wrong, ", ")+
		" is not among the addresses that the provider gives the node")
	cause.Next = "correct or remove --node-ip on " + s.Node + ", then: systemctl restart kubelet"
	return cause
}

// unknownNodeIPs returns what the kubelet was told and the node does not have.
func unknownNodeIPs(node *corev1.Node) []string {
	var wrong []string
	provided := node.Annotations[v1alpha1.ProvidedNodeIPAnnotation]
	for ip := range strings.SplitSeq(provided, ",") {
		has := func(a corev1.NodeAddress) bool { return a.Address == strings.TrimSpace(ip) }
		if provided != "" && !slices.ContainsFunc(node.Status.Addresses, has) {
			wrong = append(wrong, ip)
		}
	}
	return wrong
}

// waitsForManager is about nodes that have the taint: it looks at the pods, the lease, and then the log.
func waitsForManager(s Status, node *corev1.Node, e *evidence) finding.Finding {
	if cause := e.managerCause(); cause != nil {
		return *cause
	}
	remark := e.remarkOn(s.Node)
	if wrong := unknownNodeIPs(node); len(wrong) > 0 {
		return nodeIPCause(s, wrong)
	}
	if remark.about && strings.Contains(remark.line, "provided node ip") { // the kubelet has published it all the same
		return nodeIPCause(s, []string{node.Annotations[v1alpha1.ProvidedNodeIPAnnotation]})
	}
	if missing := e.missingBesides(); len(missing) > 0 {
		return *e.missingCause(missing)
	}
	if remark.about && remark.complains {
		cause := finding.ManagerFails.New(
			"",
			"the cloud-controller-manager runs, and its last error about this node is: "+remark.line,
		)
		cause.Next = e.logsCommand() + " | grep " + s.Node
		return cause
	}
	if len(e.denied) > 0 {
		return *e.missingCause(e.denied)
	}
	return notServed(remark, e)
}

// missingBesides is what the log says was refused, and the API server confirms, beyond what every manager needs.
func (e *evidence) missingBesides() []permission {
	all := needed(&e.leader)
	return slices.DeleteFunc(slices.Clone(e.denied), func(p permission) bool { return slices.Contains(all, p) })
}

func notServed(r remark, e *evidence) finding.Finding {
	message := "the cloud-controller-manager is the leader (" + e.leader.who() + "), "
	switch {
	case len(e.pods) == 0:
		message += "its pods lack the label " + v1alpha1.ComponentLabel + "=" + v1alpha1.Component + ", so its log is not read"
	case r.about:
		message += "and the last line of its log about this node is no error: " + r.line
	case r.line != "":
		message += "and its last lines do not mention this node; its last error is: " + r.line
	default:
		message += "and its last lines do not mention this node"
	}
	cause := finding.NotServed.New("", message)
	cause.Next = e.logsCommand()
	if len(e.pods) == 0 {
		cause.Do, cause.Next = "read the log of "+e.leader.holder(), ""
	}
	return cause
}
