package nodes

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// evidence is what there is to know of the cloud-controller-manager itself. It is gathered once for all nodes.
type evidence struct {
	pods    []corev1.Pod
	podsErr error
	leader  leadership
	// logs are the last lines of pods by name, as far as they can be fetched; cleaned, and without credentials.
	logs map[string][]string
	// events are warnings about pods.
	events []corev1.Event
	// denied is what the API server says that the manager may not do.
	denied []permission
	// besides is what it needs for other things than Nodes.
	besides []permission
	// nodes tell which container runtime is theirs.
	nodes []corev1.Node
	// flags are the --cloud-provider of kubelets that told it, by node.
	flags map[string]string
	// networks bring CNI plugins.
	networks []PodNetwork
	// workload makes the manager's pods, and notMade is why it could not.
	workload, notMade string
	// recorded says that the manager is ccmadm's.
	recorded bool
	// unmanaged says that this is no cluster in external cloud mode.
	unmanaged bool
	// left says that it is none by what every kubelet tells: a Lease that is there has outlived its manager.
	left bool
	now  time.Time
}

// leads tells whether the pod holds the Lease, or leads without.
func (e *evidence) leads(p *corev1.Pod) bool {
	if e.leader.alone != "" {
		return p.Name == e.leader.alone
	}
	return Holds(e.leader.lease, p)
}

func (e *evidence) led() bool { return e.leader.held(e.now) }

// mainStatus is that of the container that does not run, or of the first. Nil where none has been started.
func mainStatus(p *corev1.Pod) *corev1.ContainerStatus {
	list := p.Status.ContainerStatuses
	if len(list) == 0 {
		return nil
	}
	i := slices.IndexFunc(list, func(s corev1.ContainerStatus) bool { return s.State.Running == nil })
	return &list[max(0, i)]
}

// allLines are those of all pods, the leader's first.
func (e *evidence) allLines() []string {
	var lines []string
	for _, p := range e.pods {
		lines = append(lines, e.logs[p.Name]...)
	}
	return lines
}

// remarkOn is the leader's where it has one.
func (e *evidence) remarkOn(node string) remark {
	for _, p := range e.pods {
		if r := lastRemark(e.logs[p.Name], node); r.line != "" {
			return r
		}
	}
	return remark{}
}

// lastWord is what a process wrote last before it died.
func (e *evidence) lastWord(p *corev1.Pod) string { return LastWord(e.logs[p.Name]) }

// failed reports whether a container has failed so lately that this run of it has proven nothing yet.
func failed(s *corev1.ContainerStatus, now time.Time) bool {
	last := s.LastTerminationState.Terminated
	return last != nil && last.ExitCode != 0 && now.Sub(last.FinishedAt.Time) < failedLately
}

// failedLately is a little more than a Lease lasts, which the next run has to wait for.
const failedLately = 30 * time.Second
