package nodes

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
)

var (
	// ErrImage says that an image cannot be had.
	ErrImage = errors.New("its image cannot be pulled")
	// ErrContainer says that the image is there, and that its container cannot be made or started.
	ErrContainer = errors.New("its container cannot be started")
)

// NotStarting tells what keeps a container from starting; nil where nothing is said of that. What is neither ErrImage
// nor ErrContainer may pass by itself.
func NotStarting(pod *corev1.Pod) error {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		w := c.State.Waiting
		switch {
		case w == nil:
		case w.Reason == "ImagePullBackOff" || w.Reason == "ErrImageNeverPull" || w.Reason == "InvalidImageName":
			return fmt.Errorf("%w: %s: %s", ErrImage, w.Reason, finding.Clean(w.Message))
		case BehindPull(w.Reason):
			return fmt.Errorf("%w: %s: %s", ErrContainer, w.Reason, finding.Clean(w.Message))
		default:
			return fmt.Errorf("%s %s", w.Reason, finding.Clean(w.Message))
		}
	}
	return nil
}

// BehindPull reports whether a reason is one that a kubelet gives for a container whose image it has.
func BehindPull(reason string) bool {
	return slices.Contains([]string{
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError",
		"PostStartHookError", "CrashLoopBackOff",
	}, reason)
}
