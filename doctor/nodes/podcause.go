package nodes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// podCause says why a pod does not run; nil if it does.
func podCause(p *corev1.Pod, e *evidence) *Cause {
	describe := "kubectl -n " + v1alpha1.Namespace + " describe pod " + p.Name
	if p.DeletionTimestamp != nil {
		return &Cause{"PodTerminating", "pod " + p.Name + " is being deleted", describe}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &Cause{"PodPending", "pod " + p.Name + " cannot be scheduled: " + shorten(c.Message), describe}
		}
	}
	if len(p.Status.ContainerStatuses) == 0 {
		message := fmt.Sprintf("pod %s is %s and no container has been started", p.Name, p.Status.Phase)
		if p.Status.Message != "" {
			message += ": " + shorten(p.Status.Message)
		}
		return &Cause{"PodPending", message, describe}
	}
	status := p.Status.ContainerStatuses[0]
	switch {
	case status.State.Running != nil:
		return nil
	case status.State.Waiting != nil:
		return waitingCause(p, status, e, describe)
	default:
		message := "pod " + p.Name + " has stopped: " + termination(status.State.Terminated)
		return &Cause{"PodTerminated", withLine(message, e.lastWord(p)), describe}
	}
}

func waitingCause(p *corev1.Pod, status corev1.ContainerStatus, e *evidence, describe string) *Cause {
	waiting := status.State.Waiting
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return &Cause{
			"ImagePull", fmt.Sprintf("image %s of pod %s cannot be pulled: %s", status.Image, p.Name, shorten(waiting.Message)),
			fmt.Sprintf("check the image's name, or on %s: ctr -n k8s.io images import FILE", p.Spec.NodeName),
		}
	case "CrashLoopBackOff":
		message := fmt.Sprintf("pod %s dies again and again (restarts: %d), %s",
			p.Name, status.RestartCount, termination(status.LastTerminationState.Terminated))
		return &Cause{"CrashLoop", withLine(message, e.lastWord(p)), "kubectl -n " + v1alpha1.Namespace + " logs --previous " + p.Name}
	default:
		message := fmt.Sprintf("pod %s waits: %s", p.Name, waiting.Reason)
		if waiting.Message != "" {
			message += ": " + shorten(waiting.Message)
		}
		return &Cause{"PodWaiting", message, describe}
	}
}

// lastWord is what a process wrote last before it died.
func (e *evidence) lastWord(p *corev1.Pod) string {
	lines := e.logs[p.Name]
	if len(lines) == 0 {
		return ""
	}
	return shorten(lines[len(lines)-1])
}

func termination(t *corev1.ContainerStateTerminated) string {
	if t == nil {
		return "for reasons that are not known"
	}
	text := fmt.Sprintf("last with exit code %d (%s)", t.ExitCode, t.Reason)
	if t.Message != "" {
		text += ": " + shorten(t.Message)
	}
	return text
}
