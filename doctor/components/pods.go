package components

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// unready says why pods of one component are not ready; nothing where they are, have not had the time, or a Node's state says it.
// The object is the first pod where none is given.
func (j *judge) unready(object string, pods []*corev1.Pod, count, without string) []finding.Finding {
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
		byNode := p.Spec.NodeName != "" && j.Skip(p.Spec.NodeName) || p.Spec.NodeName == "" && j.nodesAreWhy(p) ||
			waitsForSandbox(p, j.Now) && slices.ContainsFunc(j.Sandboxes, func(s Sandbox) bool { return s.Node == p.Spec.NodeName })
		return nodes.IsPodReady(p) || p.DeletionTimestamp != nil || byNode || !j.lasts(p)
	})
	if len(pods) == 0 {
		return nil
	}
	p := pods[0]
	for _, other := range pods { // its log tells most
		if len(j.Logs[other.Name]) > 0 {
			p = other
			break
		}
	}
	why, next := problem(p, j.Logs[p.Name])
	if why == "" {
		why, next = "pod "+p.Name+" runs, and its readiness probe fails", "kubectl -n "+p.Namespace+" describe pod "+p.Name
	}
	message := count + ": " + why
	if more := len(pods) - 1; more > 0 {
		message += fmt.Sprintf(", and %d more of its pods", more)
	}
	if without != "" {
		message += ". Until then: " + without
	}
	f := finding.ComponentUnready.New(cmp.Or(object, "Pod/"+p.Namespace+"/"+p.Name), message)
	f.Next = next
	return []finding.Finding{f}
}

// problem is that of an init container where one fails, which the others wait for.
func problem(p *corev1.Pod, log []string) (why, next string) {
	failing := slices.ContainsFunc(p.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing" || s.State.Terminated != nil && s.State.Terminated.ExitCode != 0
	})
	if failing {
		p = p.DeepCopy()
		p.Status.ContainerStatuses = slices.DeleteFunc(p.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		})
	}
	return nodes.PodProblem(p, telling(log))
}

// words are what errors have in them, in programs that do not log as Kubernetes does.
var words = regexp.MustCompile(`(?i)error|fatal|panic|fail|cannot|no such|not found|unknown|invalid|refused|denied|forbidden`)

// telling is the last line that says an error; of a log without one, its last line.
func telling(log []string) []string {
	for _, says := range []func(string) bool{nodes.IsErrorLine, words.MatchString} {
		for i, line := range slices.Backward(log) {
			if says(line) {
				return log[i : i+1]
			}
		}
	}
	return log
}

// lasts says that a pod is unready for longer than starting takes, or fails again and again.
func (j *judge) lasts(p *corev1.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 && s.RestartCount >= 3 { // Error, between two starts: not yet CrashLoopBackOff
			return true
		}
		if w := s.State.Waiting; w != nil && slices.Contains([]string{"CrashLoopBackOff", "ImagePullBackOff", "CreateContainerConfigError"}, w.Reason) {
			return true
		}
	}
	since := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return j.Now.Sub(since) > settling
}

// nodesAreWhy says that the scheduler names the state of Nodes, which is said elsewhere.
func (j *judge) nodesAreWhy(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			for _, taint := range []string{"node.cloudprovider.kubernetes.io/", "node.kubernetes.io/"} {
				if strings.Contains(c.Message, taint) {
					return true
				}
			}
		}
	}
	return false
}
