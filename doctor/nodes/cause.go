package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Cause says why a node is not further, and what to do about it.
type Cause struct {
	// Reason is one word for programs.
	Reason string `json:"reason"`
	// Message is for people.
	Message string `json:"message"`
	// Next is the next command, or the next thing to look at.
	Next string `json:"next,omitempty"`
}

// explain fills in the causes.
func explain(ctx context.Context, c kubernetes.Interface, leaseName string, find func(string) *corev1.Node, statuses []Status) {
	var e *evidence
	for i := range statuses {
		if statuses[i].State == Ready {
			continue
		}
		if e == nil {
			e = gather(ctx, c, leaseName)
		}
		cause := causeOf(statuses[i], find(statuses[i].Node), e)
		statuses[i].Cause = &cause
	}
}

// causeOf returns the first cause that fits, in the order in which one has to look.
func causeOf(s Status, node *corev1.Node, e *evidence) Cause {
	switch s.State {
	case Absent:
		return Cause{
			"NodeAbsent", "there is no such Node: its kubelet has not registered",
			"on " + s.Node + ": journalctl -u kubelet --no-pager -n 50",
		}
	case Registered:
		return Cause{
			"NeverTainted", "the Node has neither the taint nor a provider ID, so nobody initializes it: its kubelet registered without " +
				"--cloud-provider=external, or the taint was removed by hand; a restart of the kubelet does not bring it back",
			"check the kubelet's flags on " + s.Node + ", then: kubectl taint node " + s.Node + " " + v1alpha1.UninitializedTaint + "=true:NoSchedule",
		}
	case Initialized:
		return noAddress(s, node, e)
	case Addressed:
		return notReady(s, node)
	default:
		return waitsForManager(s, node, e)
	}
}

func noAddress(s Status, node *corev1.Node, e *evidence) Cause {
	if wrong := unknownNodeIPs(node); len(wrong) > 0 {
		return nodeIPCause(s, wrong)
	}
	message := "initialized, but without an internal IP: neither the kubelet nor the provider has given one, or the " +
		"cloud-controller-manager may not patch nodes/status"
	return Cause{"NoInternalIP", withLine(message, e.about(s.Node)), managerLogs + " | grep " + s.Node}
}

// managerLogs works however many pods there are, and whatever their names.
const managerLogs = "kubectl -n " + v1alpha1.Namespace + " logs --tail=-1 -l " + v1alpha1.ComponentLabel + "=" + v1alpha1.Component

func nodeIPCause(s Status, wrong []string) Cause {
	return Cause{
		"NodeIPUnknown",
		"the kubelet's --node-ip " + strings.Join(wrong, ", ") + " is not among the addresses that the provider gives the node",
		"correct or remove --node-ip on " + s.Node + ", then: systemctl restart kubelet",
	}
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

func notReady(s Status, node *corev1.Node) Cause {
	c := readyCondition(node)
	if c == nil {
		return Cause{"NotReady", "the kubelet has not reported yet", "kubectl describe node " + s.Node}
	}
	cause := Cause{"NotReady", "the kubelet says: " + shorten(c.Message), "kubectl describe node " + s.Node}
	if strings.Contains(c.Message, "cni") {
		cause.Next = "install a CNI plugin"
	}
	return cause
}

// waitsForManager is about nodes that have the taint: it looks at the pods, the lease, and then the log.
func waitsForManager(s Status, node *corev1.Node, e *evidence) Cause {
	switch {
	case e.podsErr != nil:
		return notVisible(s, e)
	case len(e.pods) == 0:
		return Cause{
			"NoPod", "no pod with label " + v1alpha1.ComponentLabel + "=" + v1alpha1.Component + " is in " + v1alpha1.Namespace +
				": no cloud-controller-manager was installed, or no kubelet runs its static pod",
			"ccmadm init phase control-plane (or addon), then on that machine: journalctl -u kubelet | grep " + v1alpha1.Component,
		}
	}
	running := func(p corev1.Pod) bool { return podCause(&p, e) == nil }
	i := slices.IndexFunc(e.pods, running)
	if i < 0 {
		return *podCause(&e.pods[0], e)
	}
	pod := &e.pods[i]
	line := e.about(s.Node)
	if !held(e.lease, e.now) {
		return leaderCause(pod, line, e)
	}
	if skipped := e.withoutNodes(); skipped != "" {
		return Cause{
			"NoNodeController", "the cloud-controller-manager runs without its node controller, for the cloud did not answer when it started, or knows no nodes: " + skipped,
			"once the cloud's API answers: kubectl -n " + v1alpha1.Namespace + " delete pod " + pod.Name,
		}
	}
	if wrong := unknownNodeIPs(node); len(wrong) > 0 {
		return nodeIPCause(s, wrong)
	}
	if strings.Contains(line, "provided node ip") { // the kubelet has published it all the same
		return nodeIPCause(s, []string{node.Annotations[v1alpha1.ProvidedNodeIPAnnotation]})
	}
	next := "kubectl -n " + v1alpha1.Namespace + " logs " + pod.Name
	if line == "" {
		message := "the cloud-controller-manager runs and leads (" + e.holder() + "), and its last lines do not mention this node"
		return Cause{"NotServed", message, next}
	}
	return Cause{"ManagerFails", "the cloud-controller-manager runs, and its last word on this node is: " + line, next}
}

func notVisible(s Status, e *evidence) Cause {
	message := "the node waits for the cloud-controller-manager"
	if e.lease != nil && !held(e.lease, e.now) {
		message += ", and " + e.leaderless()
	}
	if apierrors.IsForbidden(e.podsErr) {
		message += "; an administrator may look at its pods, a worker's kubelet may not"
	} else {
		message += "; its pods cannot be looked at: " + e.podsErr.Error()
	}
	return Cause{"NotVisible", message, "on a control plane: ccmadm status " + s.Node}
}

func leaderCause(pod *corev1.Pod, line string, e *evidence) Cause {
	message := "the cloud-controller-manager runs, but " + e.leaderless()
	return Cause{"NoLeader", withLine(message, line), "kubectl -n " + v1alpha1.Namespace + " logs " + pod.Name}
}

// leaderless says in which way there is no leader.
func (e *evidence) leaderless() string {
	lease := "Lease/" + v1alpha1.Namespace + "/" + e.leaseName
	holder := e.holder()
	if holder == "" || e.lease.Spec.RenewTime == nil {
		return "nobody holds " + lease
	}
	ago := e.now.Sub(e.lease.Spec.RenewTime.Time).Round(time.Second)
	return fmt.Sprintf("%s, holder of %s, has not renewed it for %s", holder, lease, ago)
}

// about returns the line that tells most about a node, the leader's first.
func (e *evidence) about(node string) string {
	for _, p := range e.pods {
		if line := lastLine(e.logs[p.Name], node); line != "" {
			return line
		}
	}
	return ""
}

func withLine(message, line string) string {
	if line == "" {
		return message
	}
	return message + "; its last word: " + line
}
