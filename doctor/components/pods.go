package components

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// unready says why pods of one component are not ready; nothing where they are, have not had the time, or a Node's state says it.
// The object is the first pod where none is given.
func (j *judge) unready(object string, pods []*corev1.Pod, count, without string) []finding.Finding {
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
		byNode := p.Spec.NodeName != "" && j.Skip(p.Spec.NodeName) || p.Spec.NodeName == "" && j.nodesAreWhy(p) ||
			waitsForSandbox(p, j.Now) && slices.ContainsFunc(j.Sandboxes, func(s Sandbox) bool { return s.Node == p.Spec.NodeName })
		return nodes.IsPodReady(p) || p.DeletionTimestamp != nil || byNode || !lasts(p, j.Now)
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
	why, next := j.problem(p)
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

const (
	// restartedLately is for how long a container that has failed is not over it.
	restartedLately = 10 * time.Minute
	// fewRestarts is how often a container may start again: where a machine started again, all have.
	fewRestarts = 3
	// joins is for how long static pods may fail on a new control plane: the API server waits for etcd, and the others for it.
	joins = 15 * time.Minute
)

// restarting is about static pods that are ready, and fail again and again: the last run was as short, so it was no restart of the machine.
func (j *judge) restarting(component string, pods []*corev1.Pod) []finding.Finding {
	var list []finding.Finding
	for _, p := range pods {
		for _, s := range p.Status.ContainerStatuses {
			t := s.LastTerminationState.Terminated
			if t == nil || t.ExitCode == 0 || s.State.Running == nil || s.RestartCount < fewRestarts || !nodes.IsPodReady(p) ||
				j.Now.Sub(t.FinishedAt.Time) > restartedLately || t.FinishedAt.Sub(t.StartedAt.Time) > restartedLately ||
				j.joined(p) || j.outlasts(s.State.Running, t) {
				continue
			}
			f := finding.ComponentUnready.New(podPrefix+p.Name, fmt.Sprintf("%s on %s is ready, and was started again %d times, last %s ago after exit code %d (%s)",
				component, p.Spec.NodeName, s.RestartCount, j.Now.Sub(t.FinishedAt.Time).Round(time.Second), t.ExitCode, t.Reason))
			f.Severity = finding.SeverityWarning
			f.Next = "kubectl -n kube-system logs --previous " + p.Name
			list = append(list, f)
		}
	}
	return list
}

// joined tells whether a static pod was written, or its Node has joined, a short time ago.
func (j *judge) joined(p *corev1.Pod) bool {
	young := func(t *metav1.Time) bool { return t != nil && j.Now.Sub(t.Time) < joins }
	n := j.node(p.Spec.NodeName)
	return young(p.Status.StartTime) || n != nil && young(&n.CreationTimestamp)
}

// outlasts tells whether the present run of a container is longer than twice the last one, so that the cause may be gone.
func (j *judge) outlasts(present *corev1.ContainerStateRunning, last *corev1.ContainerStateTerminated) bool {
	since := last.FinishedAt.Time
	if present.StartedAt.After(since) {
		since = present.StartedAt.Time
	}
	return j.Now.Sub(since) > 2*last.FinishedAt.Sub(last.StartedAt.Time)
}

// problem is that of an init container where one fails, which the others wait for. Of a pod that runs, what its probe and its log say is
// quoted.
func (j *judge) problem(p *corev1.Pod) (why, next string) {
	failing := slices.ContainsFunc(p.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing" || s.State.Terminated != nil && s.State.Terminated.ExitCode != 0
	})
	if failing {
		p = p.DeepCopy()
		p.Status.ContainerStatuses = slices.DeleteFunc(p.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		})
	}
	log, complains := telling(j.Logs[p.Name])
	facts := &nodes.Facts{Now: j.Now, Nodes: j.Nodes, Events: j.Events, Logs: map[string][]string{p.Name: log}}
	if why, next = nodes.PodProblem(p, facts); why != "" {
		return why, next
	}
	why = "pod " + p.Name + " runs, and its readiness probe fails" + nodes.Warned(j.Events, j.Now, "Pod", p)
	if complains {
		why += "; the last error of its log: " + nodes.LastWord(log)
	}
	return why, "kubectl -n " + p.Namespace + " describe pod " + p.Name
}

// words are what errors have in them, in programs that do not log as Kubernetes does.
var words = regexp.MustCompile(`(?i)error|fatal|panic|fail|cannot|no such|not found|unknown|invalid|refused|denied|forbidden`)

// telling is a log up to its last line that says an error; one without such a line as it is.
func telling(log []string) (lines []string, complains bool) {
	for _, says := range []func(string) bool{nodes.IsErrorLine, words.MatchString} {
		for i, line := range slices.Backward(log) {
			if says(line) {
				return log[:i+1], true
			}
		}
	}
	return log, false
}

// LastError is the last line of a log that says an error; empty where none does.
func LastError(log []string) string {
	lines, complains := telling(log)
	if !complains {
		return ""
	}
	return nodes.LastWord(lines)
}

// lasts says that a pod is unready for longer than starting takes, or fails again and again.
func lasts(p *corev1.Pod, now time.Time) bool {
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
	return now.Sub(since) > Settling
}

// taintKey is what the scheduler says of a taint that the state of a Node has, as {node.kubernetes.io/not-ready: }.
var taintKey = regexp.MustCompile(`\{(node\.(?:cloudprovider\.)?kubernetes\.io/[^:}]+)`)

// nodesAreWhy says that the scheduler names the state of Nodes, and that each state it names is said elsewhere.
func (j *judge) nodesAreWhy(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		keys := taintKey.FindAllStringSubmatch(c.Message, -1)
		return len(keys) > 0 && !slices.ContainsFunc(keys, func(key []string) bool { return !j.saidOfTaint(key[1]) })
	}
	return false
}

// saidOfTaint tells whether a Node with a taint has a finding, or has just got the taint. Where no Node has it any more, the scheduler is
// about to try again.
func (j *judge) saidOfTaint(key string) bool {
	stays := false
	for i := range j.Nodes {
		n := &j.Nodes[i]
		at := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
		if at < 0 {
			continue
		}
		if j.Faulty(n.Name) || j.evicts(n) || j.changes(n, n.Spec.Taints[at].TimeAdded) {
			return true
		}
		stays = true
	}
	return !stays
}

// evicts tells whether pressure is found of a Node.
func (j *judge) evicts(n *corev1.Node) bool {
	commands := shortages()
	return !j.Skip(n.Name) && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return commands[c.Type] != "" && c.Status == corev1.ConditionTrue
	})
}

// changes tells whether a Node, its readiness or its taint is younger than starting takes.
func (j *judge) changes(n *corev1.Node, tainted *metav1.Time) bool {
	young := func(t metav1.Time) bool { return j.Now.Sub(t.Time) < Settling }
	return young(n.CreationTimestamp) || tainted != nil && young(*tainted) ||
		slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && young(c.LastTransitionTime)
		})
}

// others are workloads of kube-system that are no part of kubeadm: network add-ons, storage. What they want is their own.
func (j *judge) others() []finding.Finding {
	known := map[string]bool{}
	for _, c := range Expected() {
		known[c.Name] = true
	}
	var list []finding.Finding
	for i := range j.Workloads {
		w := &j.Workloads[i]
		if known[w.Name] || !w.Observed || w.Ready >= w.Wanted || w.object() == j.Manager {
			continue
		}
		found := j.podsOf(w, "")
		// beyond MostUnready it is not known which are there
		if missing := j.lacks(w); len(found) == 0 && missing > 0 && len(j.Unready) < MostUnready {
			found = j.unmade(w, missing)
		}
		list = append(list, found...)
	}
	return list
}

// unmade is about pods that a workload wants and that nothing has made: of a DaemonSet on Nodes that have had the time, of a Deployment where
// its controller was told why. Else they are about to be made.
func (j *judge) unmade(w *Workload, missing int) []finding.Finding {
	f := finding.ComponentMissing.New(w.object(), fmt.Sprintf("%s: %d of %d pods are ready, and %d not made", w.Name, w.Ready, w.Wanted, missing))
	if w.Kind == daemonSet && missing > j.unsettled() || j.refusal(w) != nil {
		return []finding.Finding{j.withRefusal(f, w)}
	}
	return nil
}

// unlisted are pods of kube-system that belong to what no list shows: static pods that kubeadm did not write, such as kube-vip, keepalived
// and haproxy, on which the API server's address may depend, and StatefulSets.
func (j *judge) unlisted() []finding.Finding {
	var list []finding.Finding
	for i := range j.Static {
		p := &j.Static[i]
		name := strings.TrimSuffix(p.Name, "-"+p.Spec.NodeName)
		if isStatic(p) || podPrefix+name == j.Manager {
			continue
		}
		list = append(list, j.unready("", []*corev1.Pod{p}, name+": its static pod on "+p.Spec.NodeName+" is not ready", "")...)
	}
	sets := map[string][]*corev1.Pod{}
	for i := range j.Unready {
		p := &j.Unready[i]
		at := slices.IndexFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == statefulSet })
		if at >= 0 && podPrefix+p.Name != j.Manager {
			name := p.OwnerReferences[at].Name
			sets[name] = append(sets[name], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		count := fmt.Sprintf("%s: %s not ready", name, finding.Count(len(sets[name]), "pod"))
		list = append(list, j.unready(statefulSet+"/"+v1alpha1.Namespace+"/"+name, sets[name], count, "")...)
	}
	return list
}

const (
	statefulSet = "StatefulSet"
	podPrefix   = "Pod/" + v1alpha1.Namespace + "/"
)

// isStatic tells whether a static pod is one that kubeadm writes.
func isStatic(p *corev1.Pod) bool {
	return slices.Contains(Static(), p.Labels[v1alpha1.ComponentLabel])
}

func readySince(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
