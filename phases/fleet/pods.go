package fleet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Pods does steps in a privileged pod on the node itself, with the machine's root below /host. It is there for the
// time of one step, and has no token of the API server.
type Pods struct {
	Env    *workflow.Env
	Client kubernetes.Interface
	Image  string
	// Prefix begins the names of pods that do steps.
	Prefix string
	// Takes is how long a step may, and Grace what is left to it when it is told to stop. Begins is how long its kubelet
	// may take until it runs, 0: as long as it takes.
	Begins, Takes, Grace time.Duration
	// LogTimeout is how long the log of a pod that has ended is asked for, 0: podAnswer.
	LogTimeout time.Duration
}

var _ Inspector = (*Pods)(nil)

// Patience is the time that a step may take.
func (b *Pods) Patience() time.Duration { return b.Takes }

// Run does a step in a pod on the node, and waits for its end.
func (b *Pods) Run(ctx context.Context, n *Node, t Task) error {
	lines := &nodeLines{env: b.Env, node: n.Name}
	unread, err := b.do(ctx, n, b.Prefix, lines, t.command())
	lines.end()
	if err == nil && unread != nil {
		b.Env.Sayf("%s: done, and what was said there cannot be shown: %s", n.Name, finding.Clean(unread.Error()))
	}
	return err
}

// Show asks a machine by a pod on the node.
func (b *Pods) Show(ctx context.Context, n *Node, more ...string) (*kubelet.NodeReport, error) {
	var said bytes.Buffer
	unread, err := b.do(ctx, n, ShowPrefix, &said, showArgs(more))
	if err = cmp.Or(err, unread); err != nil {
		return nil, err
	}
	return readReport(n, said.Bytes())
}

// do runs ccmadm in a pod, and repeats what it says. Kubelets whose serving certificate nobody has signed show none of
// it: that is unread, and no failure.
func (b *Pods) do(
	ctx context.Context, n *Node, prefix string, said io.Writer, args []string,
) (unread, err error) {
	if err := b.RemoveFormer(ctx, n, prefix); err != nil {
		return nil, err
	}
	pod := StepPod(n, prefix, b.Image, onHost(args))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(b.Grace.Seconds()))
	wanted := pod
	err = journal.Ask(ctx, func(ctx context.Context) (err error) {
		pod, err = b.Client.CoreV1().Pods(v1alpha1.Namespace).Create(ctx, wanted,
			metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
		if apierrors.IsAlreadyExists(err) { // an answer was lost
			pod, err = b.found(ctx, wanted)
		}
		return err
	})
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return nil, finding.Refusedf("run a privileged pod on %s: the cluster's admission forbids it: %w", n.Name, err).
			WithHint("--via hand names the commands to be run on each machine")
	case err != nil:
		return nil, fmt.Errorf("run a pod on %s: %w", n.Name, err)
	}
	log := &podLog{b: b, pod: pod.Name, said: said}
	ended, err := b.await(ctx, pod, log)
	if err != nil && prefix == UpgradePrefix && atWork(ended) {
		return nil, leftAtWork(n, ended, err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, b.remove(last, pod))
	}()
	if err != nil {
		return nil, err
	}
	if ended.Status.Phase == corev1.PodSucceeded || hasRun(ended) {
		unread = log.last(ctx)
	}
	return unread, judgePod(n, strings.Join(args[:2], " "), ended, unread)
}

// found is the pod as it was created before. A kubelet may show one of any name as its own, and say how it has ended.
func (b *Pods) found(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error) {
	pod, err := b.Client.CoreV1().Pods(v1alpha1.Namespace).Get(ctx, wanted.Name, metav1.GetOptions{})
	if err == nil && (nodes.IsMirror(pod) || pod.Spec.NodeName != wanted.Spec.NodeName) {
		return nil, finding.Refusedf("the kubelet of Node/%s shows Pod/%s/%s as its own: look at that machine",
			pod.Spec.NodeName, v1alpha1.Namespace, pod.Name)
	}
	return pod, err
}

// onHost are the arguments of ccmadm in a pod, in front of those that are for kubeadm.
func onHost(args []string) []string {
	ours := slices.Index(args, "--")
	if ours < 0 {
		ours = len(args)
	}
	return slices.Insert(slices.Clone(args), ours, "--root=/host")
}

// hasRun is false for a pod that its kubelet has refused: there is no log of it.
func hasRun(pod *corev1.Pod) bool { return len(pod.Status.ContainerStatuses) > 0 }

// judgePod goes by how a pod has ended.
func judgePod(n *Node, step string, ended *corev1.Pod, unread error) error {
	if ended.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	why := fmt.Sprintf("run ccmadm %s in a pod on %s: it ended as %s", step, n.Name, ended.Status.Phase)
	if s := ended.Status; s.Reason != "" || s.Message != "" { // the kubelet would not run it at all
		why += finding.Clean(", " + s.Reason + " " + s.Message)
	}
	err := errors.New(why)
	switch {
	case unread != nil:
		err = fmt.Errorf("%s: %w", why, unread)
	case hasRun(ended):
		err = fmt.Errorf("%s, see its lines above", why)
	}
	for _, c := range ended.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return elsewhere(int(t.ExitCode), err)
		}
	}
	return err
}

// podAnswer is how long an API server may take to say how a pod is, or what it has said: it may be restarting.
const podAnswer = 10 * time.Second

// await waits until the pod has ended, and returns how it was seen last; nil: it is gone. The kubelet is started again
// meanwhile, so that its reports may be late, and an API server that does not answer is asked again.
func (b *Pods) await(ctx context.Context, created *corev1.Pod, log *podLog) (pod *corev1.Pod, err error) {
	pod = created
	var why error
	pending := time.Now()
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, b.Takes, true,
		func(ctx context.Context) (bool, error) {
			asking, cancel := context.WithTimeout(ctx, podAnswer)
			defer cancel()
			found, err := b.Client.CoreV1().Pods(v1alpha1.Namespace).Get(asking, log.pod, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				pod = nil
				return false, err
			}
			if err == nil && found.UID != created.UID {
				pod = nil
				return false, errors.New("it is another one than was created")
			}
			if why = err; err != nil { // it may run by now
				pod, pending = pod.DeepCopy(), time.Now()
				pod.Status.Phase = corev1.PodUnknown
				return false, nil
			}
			pod, why = found, nodes.NotStarting(found)
			if b.Begins > 0 && time.Since(pending) > b.Begins && pod.Status.Phase == corev1.PodPending {
				return false, fmt.Errorf("its kubelet has not begun it within %s", b.Begins)
			}
			if pod.Status.Phase == corev1.PodRunning {
				log.follow(ctx)
			}
			return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, fatal(why)
		})
	if err != nil {
		return pod, fmt.Errorf("wait for Pod/%s/%s: %w", v1alpha1.Namespace, log.pod, errors.Join(why, err))
	}
	return pod, nil
}

func fatal(err error) error {
	if errors.Is(err, nodes.ErrImage) {
		return finding.Errorf("%w", err).WithHint("--node-image names one whose entrypoint is ccmadm")
	}
	return nil
}

// RemoveFormer deletes what runs that were cut short have left on a node. Runs that import images may be several at a time.
func (b *Pods) RemoveFormer(ctx context.Context, n *Node, prefix string) error {
	pods, err := n.podsOfSteps(ctx, b.Client, prefix)
	if err == nil && prefix == ImagesPrefix {
		err = n.refuseLoading(pods)
	}
	if err != nil {
		return err
	}
	for i := range pods {
		err = errors.Join(err, b.remove(ctx, &pods[i]))
	}
	return err
}

// remove deletes the pod, if it is there. One that is at work gives the kubelet its former flags, and has the time.
func (b *Pods) remove(ctx context.Context, pod *corev1.Pod) error {
	pods := b.Client.CoreV1().Pods(v1alpha1.Namespace)
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	err := journal.Ask(ctx, func(ctx context.Context) error { return pods.Delete(ctx, pod.Name, only) })
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete Pod/%s/%s: %w", v1alpha1.Namespace, pod.Name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, b.Grace+time.Minute, true,
		func(ctx context.Context) (bool, error) {
			now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID, nil
		})
	if err != nil {
		return fmt.Errorf("wait for the end of Pod/%s/%s: %w", v1alpha1.Namespace, pod.Name, err)
	}
	return nil
}
