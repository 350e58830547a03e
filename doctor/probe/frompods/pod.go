package frompods

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/probe"
)

const (
	// podBegins is how long a kubelet may take to pull the image and to begin, and podTakes for how long the pod may then ask.
	podBegins, podTakes = 45 * time.Second, 45 * time.Second
	createPatience      = 20 * time.Second
	container           = "ccmadm"
)

// newPod is one that asks. It may do nothing on the machine but to open connections and to send ping, where sysctls let every user.
func (r *run) newPod(node string, from probe.Place, task *probe.Task) (*corev1.Pod, error) {
	data, err := json.Marshal(task)
	if err != nil {
		return nil, fmt.Errorf("encode the task: %w", err)
	}
	sum := sha256.Sum256([]byte(node)) // names of Nodes may be longer than those of pods
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.Namespace,
			Name:      v1alpha1.ProbeName + "-" + string(from) + "-" + hex.EncodeToString(sum[:5]) + "-" + r.id,
			Labels:    map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager, v1alpha1.ProbeLabel: string(from)},
		},
		Spec: corev1.PodSpec{
			NodeName: node, HostNetwork: from == probe.Machine, RestartPolicy: corev1.RestartPolicyNever, DNSPolicy: corev1.DNSDefault,
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			ActiveDeadlineSeconds: new(int64((podBegins + podTakes).Seconds())), TerminationGracePeriodSeconds: new(int64(1)),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: container, Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args: []string{
					"doctor", "probe-task", "--task", string(data), "--for", podTakes.String(), "--answer", corev1.TerminationMessagePathDefault,
				},
				TerminationMessagePath:   corev1.TerminationMessagePathDefault,
				TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
				SecurityContext: &corev1.SecurityContext{
					RunAsNonRoot: new(true), RunAsUser: new(int64(65534)),
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
			}},
		},
	}, nil
}

// ask has a pod ask, and deletes it. The error says why it cannot be asked.
func (r *run) ask(ctx context.Context, n *corev1.Node, from probe.Place, task *probe.Task) (*probe.Answer, error) {
	if ctx.Err() != nil {
		return nil, errors.New("there was no time left: --probe-timeout")
	}
	pod, err := r.newPod(n.Name, from, task)
	if err != nil {
		return nil, err
	}
	created, err := r.create(ctx, pod)
	if err != nil { // one that was made although there was no answer goes at the end, by its label
		return nil, fmt.Errorf("create its pod in %s: %w", v1alpha1.Namespace, err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		_ = r.deletePod(last, created.Name, string(created.UID)) // what fails here is deleted at the end, which says so where it fails, too
	}()
	return r.await(ctx, created, len(task.Targets))
}

// create asks again where the API server cannot answer now.
func (r *run) create(ctx context.Context, pod *corev1.Pod) (created *corev1.Pod, err error) {
	ctx, cancel := context.WithTimeout(ctx, createPatience)
	defer cancel()
	pods := r.Client.CoreV1().Pods(v1alpha1.Namespace)
	err = send(ctx, func(ctx context.Context) (err error) {
		created, err = pods.Create(ctx, pod, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
		if apierrors.IsAlreadyExists(err) { // an answer was lost: the name is of this run alone
			created, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
		}
		return err
	})
	return created, err
}

// await watches a pod until it has ended, and reads what it has left.
func (r *run) await(ctx context.Context, created *corev1.Pod, asked int) (*probe.Answer, error) {
	last, began := errors.New("its kubelet has not begun the pod"), time.Now()
	patience := podBegins
	for {
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		pod, err := r.Client.CoreV1().Pods(v1alpha1.Namespace).Get(asking, created.Name, metav1.GetOptions{})
		cancel()
		switch {
		case apierrors.IsNotFound(err), err == nil && pod.UID != created.UID:
			return nil, fmt.Errorf("ask by Pod/%s/%s: it was deleted meanwhile", v1alpha1.Namespace, created.Name)
		case err != nil:
			last = fmt.Errorf("look at Pod/%s/%s: %w", v1alpha1.Namespace, created.Name, err)
		case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || terminated(pod) != nil:
			return answerOf(pod, asked)
		default:
			why := nodes.NotStarting(pod)
			if errors.Is(why, nodes.ErrImage) || errors.Is(why, nodes.ErrContainer) {
				return nil, finding.Errorf("start the pod: %w", why)
			}
			if why != nil {
				last = fmt.Errorf("start the pod: %w", why)
			}
			if pod.Status.Phase == corev1.PodRunning {
				last, patience = errors.New("the pod has not ended"), podBegins+podTakes
			}
		}
		if time.Since(began) > patience {
			return nil, fmt.Errorf("%w within %s", last, patience)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, and there was no time left: --probe-timeout", last)
		case <-time.After(r.pollEvery()):
		}
	}
}

// pollEvery is how often each pod is looked at: with two pods of each Node that is at most 20 requests a second.
func (r *run) pollEvery() time.Duration { return max(often, time.Duration(r.AtOnce)*often/5) }

// terminated is how the container of this program has ended; nil: it has not. A pod with a container that a webhook added may go on.
func terminated(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == container {
			return s.State.Terminated
		}
	}
	return nil
}

// answerOf is what a pod has left that has ended.
func answerOf(pod *corev1.Pod, asked int) (*probe.Answer, error) {
	switch t := terminated(pod); {
	case t == nil:
		return nil, fmt.Errorf("the pod ended as %s without having run: %s", pod.Status.Phase, said(pod.Status.Reason, pod.Status.Message))
	case t.ExitCode != 0:
		return nil, fmt.Errorf("the pod ended with exit status %d: %s", t.ExitCode, said(t.Reason, t.Message))
	default:
		return probe.Decode([]byte(t.Message), asked)
	}
}

// said is what a kubelet reports of an end.
func said(reason, message string) string {
	return finding.Clean(strings.TrimSpace(reason + " " + message))
}

// deletePod deletes one without waiting for its kubelet, which may not answer: the program in it ends by itself.
func (r *run) deletePod(ctx context.Context, name, uid string) error {
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(uid)}
	err := r.Client.CoreV1().Pods(v1alpha1.Namespace).Delete(ctx, name, options)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("delete Pod/%s/%s: %w", v1alpha1.Namespace, name, err)
}
