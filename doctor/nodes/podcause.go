package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// PodProblem says why a pod does not run, with the last line of its log, and which command tells more; empty where it runs. The command goes by
// the container runtime of its Node.
func PodProblem(p *corev1.Pod, f *Facts) (why, next string) {
	cause := podCause(p, &evidence{logs: f.Logs, nodes: f.Nodes, events: f.Events, now: f.Now})
	if cause == nil {
		return "", ""
	}
	return cause.Message, cause.Next
}

// Runtime is what a container runtime is called by systemd, and the command that takes an image from a file.
type Runtime struct{ Unit, Import string }

// RuntimeOf is that of a Node, by its status (containerd://2.1.0); containerd where it does not tell.
func RuntimeOf(all []corev1.Node, node string) Runtime {
	i := slices.IndexFunc(all, func(n corev1.Node) bool { return n.Name == node })
	if i < 0 {
		return runtimeNamed("")
	}
	name, _, _ := strings.Cut(all[i].Status.NodeInfo.ContainerRuntimeVersion, "://")
	return runtimeNamed(name)
}

// runtimeNamed knows the runtimes that kubeadm does.
func runtimeNamed(name string) Runtime {
	switch name {
	case "cri-o":
		return Runtime{"crio", "podman load -i"} // both keep images in the same place
	case "docker":
		return Runtime{"docker", "docker load -i"}
	}
	return Runtime{"containerd", "ctr -n k8s.io images import"}
}

// podCause says why a pod does not run; nil if it does.
func podCause(p *corev1.Pod, e *evidence) *finding.Finding {
	describe := kubectl(p) + "describe pod " + p.Name
	found := func(id finding.ID, message string) *finding.Finding {
		f := id.New("", message)
		f.Next = describe
		return &f
	}
	if p.DeletionTimestamp != nil {
		return found(finding.PodTerminating, "pod "+p.Name+" is being deleted"+e.warned(p))
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return found(finding.PodPending, "pod "+p.Name+" cannot be scheduled: "+Shorten(c.Message))
		}
	}
	status := mainStatus(p)
	switch {
	case status == nil:
		message := fmt.Sprintf("pod %s is %s and no container has been started", p.Name, p.Status.Phase)
		return found(finding.PodPending, message+cmp.Or(ended(p), e.warned(p)))
	case status.State.Running != nil:
		return nil
	case status.State.Waiting != nil:
		return waitingCause(p, status, e, found)
	}
	message := "pod " + p.Name + " has stopped" + ended(p) + ": " + termination(status.State.Terminated)
	return found(finding.PodTerminated, withLine(message, e.lastWord(p)))
}

// ended is what the kubelet says of a pod as a whole, such as one that it has evicted.
func ended(p *corev1.Pod) string {
	if p.Status.Reason == "" && p.Status.Message == "" {
		return ""
	}
	return ": " + Shorten(strings.Trim(p.Status.Reason+": "+p.Status.Message, ": "))
}

func (e *evidence) warned(p *corev1.Pod) string { return Warned(e.events, e.now, "Pod", p) }

// LeftOver tells whether a pod of a ReplicaSet has ended for good, such as one that was evicted: another one was made in its place, and
// kube-controller-manager keeps thousands of them. Those of DaemonSets and StatefulSets it deletes.
func LeftOver(p *corev1.Pod) bool {
	return (p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded) &&
		slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "ReplicaSet" })
}

func waitingCause(
	p *corev1.Pod, status *corev1.ContainerStatus, e *evidence, found func(finding.ID, string) *finding.Finding,
) *finding.Finding {
	waiting := status.State.Waiting
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		f := found(
			finding.ImagePull,
			fmt.Sprintf("image %s of pod %s cannot be pulled: %s", status.Image, p.Name, Shorten(waiting.Message)),
		)
		f.Next = fmt.Sprintf("on %s: %s FILE", p.Spec.NodeName, RuntimeOf(e.nodes, p.Spec.NodeName).Import)
		return f
	case "CrashLoopBackOff":
		message := fmt.Sprintf("pod %s restarts again and again (restarts: %d), %s",
			p.Name, status.RestartCount, termination(status.LastTerminationState.Terminated))
		f := found(finding.CrashLoop, withLine(message, e.lastWord(p)))
		f.Next = kubectl(p) + "logs --previous " + p.Name
		return f
	}
	message := fmt.Sprintf("pod %s is waiting: %s", p.Name, waiting.Reason)
	if waiting.Message == "" {
		return found(finding.PodWaiting, message+e.warned(p))
	}
	return found(finding.PodWaiting, message+": "+Shorten(waiting.Message))
}

func withLine(message, line string) string {
	if line == "" {
		return message
	}
	return message + "; the last line of its log: " + line
}

func termination(t *corev1.ContainerStateTerminated) string {
	if t == nil {
		return "for an unknown reason"
	}
	text := fmt.Sprintf("last with exit code %d (%s)", t.ExitCode, t.Reason)
	if t.Message != "" {
		text += ": " + Shorten(t.Message)
	}
	return text
}

// kubectl is how a command about a pod starts.
func kubectl(p *corev1.Pod) string {
	return "kubectl -n " + cmp.Or(p.Namespace, v1alpha1.Namespace) + " "
}
