package phases

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/podstate"
)

// byPods does steps in a privileged pod on the node itself, with the machine's root below /host. It is there for the
// time of one step, and has no token of the API server.
type byPods struct {
	d      *Data
	client kubernetes.Interface
}

// patience has room for a kubelet that does not come back, and is given its former flags.
func (b *byPods) patience() time.Duration { return 2*b.d.Adoption.NodeTimeout + time.Minute }

func (b *byPods) run(ctx context.Context, n *plannedNode, args ...string) (err error) {
	if err := b.removeFormer(ctx, n); err != nil {
		return err
	}
	pod := stepPod(n, b.d.Adoption.Image, append([]string{"node"}, append(args, "--root=/host")...))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(b.patience().Seconds())) // giving flags back takes as long again
	wanted := pod
	err = journal.Ask(ctx, func(ctx context.Context) (err error) {
		pod, err = b.client.CoreV1().Pods(v1alpha1.Namespace).Create(ctx, wanted,
			metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
		if apierrors.IsAlreadyExists(err) { // an answer was lost
			pod, err = b.found(ctx, wanted)
		}
		return err
	})
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return finding.Refusedf("run a privileged pod on %s: the cluster's admission forbids it: %w", n.name, err).
			WithHint("--via hand names the commands to be run on each machine")
	case err != nil:
		return fmt.Errorf("run a pod on %s: %w", n.name, err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, b.remove(last, pod))
	}()
	ended, err := b.await(ctx, pod)
	if err != nil {
		return err
	}
	return b.judge(ctx, n, args[0], ended)
}

// found is the pod as it was created before. A kubelet may show one of any name as its own, and say how it has ended.
func (b *byPods) found(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error) {
	pod, err := b.client.CoreV1().Pods(v1alpha1.Namespace).Get(ctx, wanted.Name, metav1.GetOptions{})
	if err == nil && (nodes.IsMirror(pod) || pod.Spec.NodeName != wanted.Spec.NodeName) {
		return nil, finding.Refusedf("the kubelet of Node/%s shows Pod/%s/%s as its own: look at that machine",
			pod.Spec.NodeName, v1alpha1.Namespace, pod.Name)
	}
	return pod, err
}

// judge goes by how the pod has ended. Its lines are for people: kubelets whose serving certificate nobody has signed
// show none.
func (b *byPods) judge(ctx context.Context, n *plannedNode, step string, ended *corev1.Pod) error {
	log, err := b.log(ctx, ended.Name)
	tellOfNode(b.d, n, log)
	if ended.Status.Phase == corev1.PodSucceeded {
		if err != nil {
			b.d.Sayf("%s: done, and what was said there cannot be shown: %s", n.name, finding.Clean(err.Error()))
		}
		return nil
	}
	why := fmt.Sprintf("run ccmadm node %s in a pod on %s: it ended as %s", step, n.name, ended.Status.Phase)
	if s := ended.Status; s.Reason != "" || s.Message != "" { // the kubelet would not run it at all
		why += finding.Clean(", " + s.Reason + " " + s.Message)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", why, err)
	}
	return fmt.Errorf("%s, see its lines above", why)
}

// await waits until the pod has ended. The kubelet is started again meanwhile, so that its reports may be late, and an
// API server that does not answer is asked again.
func (b *byPods) await(ctx context.Context, created *corev1.Pod) (*corev1.Pod, error) {
	var pod *corev1.Pod
	var why error
	name := created.Name
	err := wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, b.patience(), true,
		func(ctx context.Context) (bool, error) {
			found, err := b.client.CoreV1().Pods(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, err
			}
			if err == nil && found.UID != created.UID {
				return false, errors.New("it is another one than was created")
			}
			if why = err; err == nil {
				pod, why = found, podstate.NotStarting(found)
			}
			ended := pod != nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
			return ended, fatal(why)
		})
	if err != nil {
		return nil, fmt.Errorf("wait for Pod/%s/%s: %w", v1alpha1.Namespace, name, errors.Join(why, err))
	}
	return pod, nil
}

func fatal(err error) error {
	if errors.Is(err, podstate.ErrImage) {
		return finding.Errorf("%w", err).WithHint("--node-image names one whose entrypoint is ccmadm")
	}
	return nil
}

func (b *byPods) log(ctx context.Context, name string) (string, error) {
	var data []byte
	var last error
	// The kubelet has just been started again, and may not serve logs yet.
	_ = wait.PollUntilContextTimeout(ctx, 500*time.Millisecond, 10*time.Second, true,
		func(ctx context.Context) (bool, error) {
			data, last = b.client.CoreV1().Pods(v1alpha1.Namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
			return last == nil, nil
		})
	if last != nil {
		return "", fmt.Errorf("read the log of Pod/%s/%s: %w", v1alpha1.Namespace, name, last)
	}
	return string(data), nil
}

// removeFormer deletes what runs that were cut short have left on a node.
func (b *byPods) removeFormer(ctx context.Context, n *plannedNode) error {
	pods, err := podsOfSteps(ctx, b.client)
	if err != nil {
		return err
	}
	for i := range pods {
		if n.runs(pods[i]) {
			err = errors.Join(err, b.remove(ctx, &pods[i]))
		}
	}
	return err
}

// remove deletes the pod, if it is there. One that is at work gives the kubelet its former flags, and has the time.
func (b *byPods) remove(ctx context.Context, pod *corev1.Pod) error {
	pods := b.client.CoreV1().Pods(v1alpha1.Namespace)
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	err := journal.Ask(ctx, func(ctx context.Context) error { return pods.Delete(ctx, pod.Name, only) })
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete Pod/%s/%s: %w", v1alpha1.Namespace, pod.Name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, 250*time.Millisecond, b.patience(), true,
		func(ctx context.Context) (bool, error) {
			now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID, nil
		})
	if err != nil {
		return fmt.Errorf("wait for the end of Pod/%s/%s: %w", v1alpha1.Namespace, pod.Name, err)
	}
	return nil
}

// stepPrefix begins the names of pods that do steps. What follows is not known beforehand: no kubelet can be first.
const stepPrefix = "ccmadm-node-"

// podForNode is a name that every node's name gives, however long.
func podForNode(prefix, node string) string {
	sum := sha256.Sum256([]byte(node))
	return prefix + hex.EncodeToString(sum[:5])
}

func stepPod(n *plannedNode, image string, args []string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podForNode(stepPrefix, n.name) + "-" + utilrand.String(8), Namespace: v1alpha1.Namespace,
			Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
		},
		Spec: corev1.PodSpec{
			NodeName: n.name, HostPID: true, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			PriorityClassName: "system-node-critical",
			Tolerations:       []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "ccmadm", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Args: args,
				SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))},
				VolumeMounts:    []corev1.VolumeMount{{Name: "host", MountPath: "/host"}},
			}},
			Volumes: []corev1.Volume{{
				Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
			}},
		},
	}
}
