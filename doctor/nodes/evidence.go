package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// evidence is what there is to know of the cloud-controller-manager itself. It is gathered once for all nodes.
type evidence struct {
	pods    []corev1.Pod
	podsErr error
	leader  leadership
	// logs are the last lines of pods by name, as far as they can be fetched; cleaned, and without credentials.
	logs map[string][]string
	// denied is what the API server says that the manager may not do.
	denied []permission
	// besides is what it needs for other things than Nodes.
	besides []permission
	// flags are the --cloud-provider of kubelets that told it, by node.
	flags map[string]string
	// recorded says that the manager is ccmadm's.
	recorded bool
	// unmanaged says that this is no cluster in external cloud mode.
	unmanaged bool
	now       time.Time
}

const (
	logLines = 200       // enough for a round over all nodes of a small cluster
	logBytes = 384 << 10 // no more than this is read, with the lines before them, however long lines are
	logPods  = 3         // the leader, and what has just crashed
)

// askManager reads what it may of the manager. What it may not see is left out: half an answer is better than none.
func (f *Facts) askManager(ctx context.Context, c kubernetes.Interface) {
	selector := metav1.ListOptions{LabelSelector: v1alpha1.ComponentLabel + "=" + v1alpha1.Component}
	list, err := c.CoreV1().Pods(v1alpha1.Namespace).List(ctx, selector)
	if err != nil {
		f.PodsErr = fmt.Errorf("list pods of the cloud-controller-manager: %w", err)
		return
	}
	if f.Pods, f.PodsErr = withoutStrays(ctx, c, list.Items); f.PodsErr == nil {
		f.AskPods(ctx, c)
	}
}

// AskPods reads the last lines of the manager's pods, and asks what it may do.
func (f *Facts) AskPods(ctx context.Context, c kubernetes.Interface) {
	f.Logs = map[string][]string{}
	e := f.evidence()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range e.pods[:min(len(e.pods), logPods)] {
		wg.Go(func() {
			lines := e.tail(ctx, c, &p)
			mu.Lock()
			defer mu.Unlock()
			f.Logs[p.Name] = lines
		})
	}
	wg.Wait()
	f.Reviews = e.review(ctx, c)
}

// leads tells whether the pod holds the lease, or leads without. A holder is HOSTNAME_UUID, and our pods have their machine's name.
func (e *evidence) leads(p *corev1.Pod) bool {
	if e.leader.alone != "" {
		return p.Name == e.leader.alone
	}
	host, _, _ := strings.Cut(e.leader.holder(), "_")
	return host != "" && host == p.Spec.NodeName
}

func (e *evidence) led() bool { return e.leader.held(e.now) }

// tail returns the last lines of a pod; of the run before, if it has crashed and waits to be started again, and of both
// if it was started again a moment ago.
func (e *evidence) tail(ctx context.Context, c kubernetes.Interface, p *corev1.Pod) []string {
	status := mainStatus(p)
	if status == nil {
		return nil
	}
	waits := status.State.Waiting != nil
	if waits && status.LastTerminationState.Terminated == nil {
		return nil // it has never run
	}
	lines := linesOf(ctx, c, p, status.Name, waits)
	if !waits && failed(status, e.now) {
		lines = append(linesOf(ctx, c, p, status.Name, true), lines...)
	}
	return lines
}

func linesOf(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, container string, previous bool) []string {
	data, err := c.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: new(int64(logLines + redact.Further)), LimitBytes: new(int64(logBytes)),
	}).DoRaw(ctx)
	if err != nil {
		return nil // the API server does not reach every kubelet, least of all one whose node has no address yet
	}
	var lines []string
	for line := range strings.Lines(redact.Tail(string(data), logLines)) {
		line = finding.Clean(strings.TrimSpace(line))
		if line != "" && !strings.HasPrefix(line, "unable to retrieve container logs") { // the kubelet's own words
			lines = append(lines, line)
		}
	}
	return lines
}

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
