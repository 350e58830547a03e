package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// StepPrefix begins the names of pods that do steps of adopt and leave, UpgradePrefix of those that upgrade a machine,
// ShowPrefix of those that ask a machine for what it has, and ImagesPrefix of those that import images. What follows is
// not known beforehand: no kubelet can be first.
const (
	StepPrefix    = "ccmadm-node-"
	UpgradePrefix = "ccmadm-upgrade-"
	ShowPrefix    = "ccmadm-show-"
	ImagesPrefix  = "ccmadm-images-"
)

// PodForNode is a name that every node's name gives, however long.
func PodForNode(prefix, node string) string {
	sum := sha256.Sum256([]byte(node))
	return prefix + hex.EncodeToString(sum[:5])
}

// NewPodName is PodForNode with a random part: a kubelet may show a pod of its own under any name that it knows.
func NewPodName(prefix, node string) string {
	return PodForNode(prefix, node) + "-" + utilrand.String(8)
}

// StepPod is the privileged pod that does a step on a node. It has no token of the API server.
func StepPod(n *Node, prefix, image string, args []string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: NewPodName(prefix, n.Name), Namespace: v1alpha1.Namespace,
			Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
		},
		Spec: corev1.PodSpec{
			NodeName: n.Name, HostPID: true, HostNetwork: true, RestartPolicy: corev1.RestartPolicyNever,
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

// podLog repeats what a pod says. It is asked for again and again, and not followed: an API server that restarts, or a
// kubelet, would end that.
type podLog struct {
	b     *Pods
	pod   string
	said  io.Writer
	told  int
	asked time.Time
}

// follow repeats what is new, once a second. What cannot be had now, last asks for again.
func (l *podLog) follow(ctx context.Context) {
	if time.Since(l.asked) < time.Second {
		return
	}
	l.asked = time.Now()
	_ = l.next(ctx)
}

// last repeats the rest, or says why it cannot be had.
func (l *podLog) last(ctx context.Context) error {
	var why error
	// The kubelet may just have been started again, and not serve logs yet.
	const often = 500 * time.Millisecond
	_ = wait.PollUntilContextTimeout(ctx, often, cmp.Or(l.b.LogTimeout, podAnswer), true, func(ctx context.Context) (bool, error) {
		why = l.next(ctx)
		return why == nil, nil
	})
	if why != nil {
		return fmt.Errorf("read the log of Pod/%s/%s: %w", v1alpha1.Namespace, l.pod, why)
	}
	return nil
}

// maxSaid is how much of what a pod says is read: an upgrade says some kilobytes, and it is read again and again.
const maxSaid = 1 << 20

func (l *podLog) next(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, podAnswer)
	defer cancel()
	stream, err := l.b.Client.CoreV1().Pods(v1alpha1.Namespace).GetLogs(l.pod, &corev1.PodLogOptions{}).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // it was read
	data, err := io.ReadAll(io.LimitReader(stream, maxSaid))
	if err != nil || len(data) <= l.told {
		return err
	}
	_, err = l.said.Write(data[l.told:])
	l.told = len(data)
	return err
}
