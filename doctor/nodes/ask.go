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

// askManager reads what it may of the manager. What it may not see is left out: half an answer is better than none.
func (f *Facts) askManager(ctx context.Context, c kubernetes.Interface) {
	selector := metav1.ListOptions{LabelSelector: v1alpha1.ComponentLabel + "=" + v1alpha1.Component}
	list, err := c.CoreV1().Pods(v1alpha1.Namespace).List(ctx, selector)
	if err != nil {
		f.PodsErr = fmt.Errorf("list pods of the cloud-controller-manager: %w", err)
		return
	}
	if f.Pods, f.PodsErr = f.withoutStrays(ctx, c, list.Items); f.PodsErr == nil {
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

// Tail returns the last lines of a pod, without credentials; of the run before, if it has crashed. Nil where they cannot be fetched.
func Tail(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, now time.Time) []string {
	return (&evidence{now: now}).tail(ctx, c, p)
}

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

// Lately returns the last lines of a pod that runs, as [Tail] does, that are no older than so long. The kubelet says which these are: its
// clock is the pod's, and that of those who ask may be another.
func Lately(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, since time.Duration) []string {
	status := mainStatus(p)
	if status == nil {
		return nil
	}
	return readLog(ctx, c, p, &corev1.PodLogOptions{Container: status.Name, SinceSeconds: new(int64(since / time.Second))})
}

func linesOf(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, container string, previous bool) []string {
	return readLog(ctx, c, p, &corev1.PodLogOptions{Container: container, Previous: previous})
}

// readLog returns the last lines of a log.
func readLog(ctx context.Context, c kubernetes.Interface, p *corev1.Pod, o *corev1.PodLogOptions) []string {
	o.TailLines, o.LimitBytes = new(int64(LogLines+redact.Further)), new(int64(logBytes))
	data, err := c.CoreV1().Pods(p.Namespace).GetLogs(p.Name, o).DoRaw(ctx)
	if err != nil {
		return nil // the API server does not reach every kubelet, least of all one whose node has no address yet
	}
	var lines []string
	for line := range strings.Lines(redact.Tail(string(data), LogLines)) {
		line = finding.Clean(strings.TrimSpace(line))
		if line != "" && !strings.HasPrefix(line, "unable to retrieve container logs") { // the kubelet's own words
			lines = append(lines, line)
		}
	}
	return lines
}

// LogLines is how many of a pod's last lines are read: enough for a round over all Nodes of a small cluster.
const LogLines = 200

const (
	logBytes = 384 << 10 // no more than this is read, with the lines before them, however long lines are
	logPods  = 3         // the leader, and what has just crashed
)

// withoutStrays lists the control planes where pods are static, and not all Nodes are known.
func (f *Facts) withoutStrays(ctx context.Context, c kubernetes.Interface, pods []corev1.Pod) ([]corev1.Pod, error) {
	if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return IsMirror(&p) }) {
		return pods, nil
	}
	nodes := f.Nodes
	if !f.every {
		list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ControlPlaneLabel})
		if err != nil {
			return nil, fmt.Errorf("list the control planes: %w", err)
		}
		nodes = list.Items
	}
	stray := Strays(nodes)
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return stray(&p) }), nil
}
