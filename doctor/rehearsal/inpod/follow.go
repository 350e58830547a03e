package inpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
)

// startPatience has room for two images to be pulled. unreadPatience is for a log that cannot be read at all.
const (
	startPatience  = 5 * time.Minute
	unreadPatience = 10 * time.Second
	often          = 500 * time.Millisecond
)

// report waits for the pod, and reads what it says.
func (r *run) report(ctx context.Context) (*rehearsal.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience+r.limit())
	defer cancel()
	if err := r.started(ctx); err != nil {
		return nil, err
	}
	receiver := &rehearsal.Receiver{Progress: r.Task.Progress, Log: r.Task.Log}
	readable, ended := time.Now(), false
	for {
		report, opened, err := r.receive(ctx, receiver)
		if err == nil || opened && !errors.Is(err, rehearsal.ErrCut) {
			return report, err
		}
		if opened {
			readable = time.Now()
		}
		if ended || ctx.Err() != nil {
			return nil, r.withoutReport(ctx, err)
		}
		if time.Since(readable) > unreadPatience {
			return nil, finding.Errorf("%w", err).WithHint("the report comes by the pod's log; %s", elsewhere)
		}
		pod, got := r.look(ctx)
		if got != nil && !temporary(got) {
			return nil, got
		}
		ended = got == nil && hasEnded(pod) // then its log is read to the end
		select {
		case <-ctx.Done():
		case <-time.After(often):
		}
	}
}

// receive reads the log from its beginning, as long as there is more to come. It reports whether it could be read at all.
func (r *run) receive(ctx context.Context, receiver *rehearsal.Receiver) (*rehearsal.Report, bool, error) {
	options := &corev1.PodLogOptions{Container: r.pod.Spec.Containers[0].Name, Follow: true}
	stream, err := r.client.CoreV1().Pods(r.name).GetLogs(r.name, options).Stream(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("read the log of Pod/%s/%s: %w", r.name, r.name, err)
	}
	defer func() { _ = stream.Close() }()
	report, err := receiver.Receive(stream)
	return report, true, err
}

func (r *run) look(ctx context.Context) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	pod, err := r.client.CoreV1().Pods(r.name).Get(ctx, r.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, finding.Errorf("look at Pod/%s/%s: it was deleted", r.name, r.name)
	}
	if err != nil {
		return nil, fmt.Errorf("look at Pod/%s/%s: %w", r.name, r.name, err)
	}
	return pod, nil
}

// temporary says that it may be asked again: no answer said that the pod is gone.
func temporary(err error) bool {
	var gone *finding.Error
	return !errors.As(err, &gone)
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// started waits until the container has begun, or cannot. What the scheduler and the kubelet say counts at once.
func (r *run) started(ctx context.Context) error {
	last := errors.New("no kubelet has started it")
	err := wait.PollUntilContextTimeout(ctx, often, startPatience, true, func(ctx context.Context) (bool, error) {
		pod, err := r.look(ctx)
		if err != nil {
			if !temporary(err) {
				return false, err
			}
			last = err
			return false, nil
		}
		if hasEnded(pod) || begun(pod) {
			return true, nil
		}
		if why := nodes.NotStarting(pod); why != nil {
			last = why
		}
		return false, r.hopeless(pod)
	})
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return fmt.Errorf("wait for Pod/%s/%s to start: %w%s", r.name, r.name, last, r.warning(ctx))
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("wait for Pod/%s/%s to start: %w", r.name, r.name, ctx.Err())
	}
	return err
}

func begun(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil
	})
}

// hopeless says that waiting is of no use.
func (r *run) hopeless(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
			return finding.Refusedf("rehearse on a control plane: the pod cannot be scheduled: %s", finding.Clean(c.Message)).
				WithHint(elsewhere)
		}
	}
	why := nodes.NotStarting(pod)
	if errors.Is(why, nodes.ErrImage) {
		return finding.Errorf("start Pod/%s/%s: %w", r.name, r.name, why).
			WithHint("--image names the provider's, --node-image ccmadm's")
	}
	if errors.Is(why, nodes.ErrContainer) {
		return finding.Errorf("start Pod/%s/%s: %w", r.name, r.name, why).WithHint(elsewhere)
	}
	return nil
}

// warning is the last of the pod's Events that is one: of volumes and sandboxes the status says nothing.
func (r *run) warning(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := r.client.CoreV1().Events(r.name).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	latest := slices.MaxFunc(list.Items, func(a, b corev1.Event) int {
		return a.LastTimestamp.Compare(b.LastTimestamp.Time)
	})
	return "; " + finding.Clean(latest.Reason+": "+latest.Message)
}

// withoutReport says how a pod has ended that has not told its report.
func (r *run) withoutReport(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("rehearse in Pod/%s/%s: %w", r.name, r.name, ctx.Err())
	}
	pod, err := r.look(ctx)
	if err != nil {
		return errors.Join(why, err)
	}
	s := pod.Status
	text := strings.TrimSpace(fmt.Sprintf("it ended as %s %s %s", s.Phase, s.Reason, s.Message))
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			text = fmt.Sprintf("%s; container %s of %s: exit status %d, %s", text, c.Name, c.Image, t.ExitCode,
				strings.TrimSuffix(t.Reason+": "+t.Message, ": "))
			break
		}
	}
	return finding.Errorf("rehearse in Pod/%s/%s: %s: %w", r.name, r.name, finding.Clean(text), why).
		WithHint("--node-image has to be ccmadm of this version, --timeout gives it more time")
}
