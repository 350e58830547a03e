package nodes

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// evidence is what there is to know of the cloud-controller-manager itself. It is gathered once for all nodes.
type evidence struct {
	pods    []corev1.Pod
	podsErr error
	lease   *coordinationv1.Lease
	// leaseName is what it is called, or would be.
	leaseName string
	// logs are the last lines of pods by name, as far as they can be fetched.
	logs map[string][]string
	now  time.Time
}

const (
	logLines = 200 // enough for a round over all nodes of a small cluster
	logPods  = 3   // the leader, and what has just crashed
)

// gather reads what it may. What it may not see is left out: half an answer is better than none.
func gather(ctx context.Context, c kubernetes.Interface, leaseName string) *evidence {
	e := &evidence{lease: getLease(ctx, c, leaseName), leaseName: leaseName, logs: map[string][]string{}, now: time.Now()}
	list, err := c.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ComponentLabel + "=" + v1alpha1.Component})
	if err != nil {
		e.podsErr = fmt.Errorf("list pods of the cloud-controller-manager: %w", err)
		return e
	}
	e.pods = list.Items
	leads := func(p corev1.Pod) int {
		if e.leads(&p) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(e.pods, func(a, b corev1.Pod) int { return leads(a) - leads(b) })
	for _, p := range e.pods[:min(len(e.pods), logPods)] {
		if lines := tail(ctx, c, &p); lines != nil {
			e.logs[p.Name] = lines
		}
	}
	return e
}

// leads tells whether the pod holds the lease. A holder is HOSTNAME_UUID, and our pods have their machine's name.
func (e *evidence) leads(p *corev1.Pod) bool {
	host, _, _ := strings.Cut(e.holder(), "_")
	return host != "" && host == p.Spec.NodeName
}

func (e *evidence) holder() string {
	if e.lease == nil || e.lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *e.lease.Spec.HolderIdentity
}

// tail returns the last lines of a pod; of the run before, if it has crashed and waits to be started again.
func tail(ctx context.Context, c kubernetes.Interface, p *corev1.Pod) []string {
	if len(p.Status.ContainerStatuses) == 0 {
		return nil
	}
	status := p.Status.ContainerStatuses[0]
	waits := status.State.Waiting != nil
	if waits && status.LastTerminationState.Terminated == nil {
		return nil // it has never run
	}
	data, err := c.CoreV1().Pods(v1alpha1.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Container: status.Name, Previous: waits, TailLines: new(int64(logLines)),
	}).DoRaw(ctx)
	if err != nil {
		return nil // the API server does not reach every kubelet, least of all one whose node has no address yet
	}
	return slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool {
		return strings.TrimSpace(line) == "" || strings.HasPrefix(line, "unable to retrieve container logs") // the kubelet's own words
	})
}

// lastLine returns the last line that tells most: a complaint about the node, any word about it, any complaint.
func lastLine(lines []string, node string) string {
	about := func(line string) bool { return strings.Contains(line, node) }
	for _, match := range []func(string) bool{
		func(line string) bool { return about(line) && complaint(line) },
		about,
		complaint,
	} {
		for _, line := range slices.Backward(lines) {
			if match(line) {
				return shorten(line)
			}
		}
	}
	return ""
}

// withoutNodes returns the line by which a manager says that its node controller does not run. It never tries again.
func (e *evidence) withoutNodes() string {
	for _, p := range e.pods {
		for _, line := range e.logs[p.Name] {
			if strings.Contains(line, "cloud provider does not support instances") || strings.Contains(line, `Skipping "cloud-node-controller"`) {
				return shorten(line)
			}
		}
	}
	return ""
}

// complaint knows the log format of Kubernetes, in which errors and fatal errors start with their letter.
func complaint(line string) bool {
	return strings.HasPrefix(line, "E") || strings.HasPrefix(line, "F") ||
		strings.Contains(line, "forbidden") || strings.Contains(line, "error")
}

// klogHeader is severity, time, thread and place in the source: "E1121 12:00:00.000000 1 node_controller.go:285] ".
var klogHeader = regexp.MustCompile(`^[IWEF]\d{4} [\d:.]+ +\d+ \S+:\d+\] `)

// shorten keeps both ends of a long line: what it is about stands at the front, and the reason at the end.
func shorten(line string) string {
	const half = 200
	line = klogHeader.ReplaceAllString(strings.TrimSpace(line), "")
	if len(line) > 2*half {
		line = strings.ToValidUTF8(line[:half]+" ... "+line[len(line)-half:], "")
	}
	return line
}
