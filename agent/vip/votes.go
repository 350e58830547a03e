package vip

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// podSilentFor is how long the static pod of a control plane is not Ready before its Node has no vote. It is less than
	// the longest pause of a kubelet between two starts of a container that crashes.
	podSilentFor = 2 * time.Minute
	// podBackFor is how long it has to be Ready before the Node has a vote again: one that crashes is Ready for seconds.
	podBackFor = time.Minute
)

// listPods are the static pods that hold the address, by what their kubelets report; nil: they may not be listed.
func listPods(ctx context.Context, client kubernetes.Interface) ([]corev1.Pod, error) {
	list, err := client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.ComponentLabel + "=" + v1alpha1.VIPName,
	})
	if apierrors.IsForbidden(err) {
		klog.V(1).ErrorS(err, "Not allowed to list the pods of the other control planes: votes depend on their kubelets only")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// podSilent reports whether a Node has no vote because of its static pod, which does not run though the kubelet may do. Was
// says that it had none before, and age for how long a pod is as it is. Without a pod it stays as it was: a pod whose object was deleted
// goes on running.
func podSilent(pods []corev1.Pod, node string, was bool, age ages) bool {
	found, silent := false, true
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != node { // whatever its name: a kubelet may make pods of its own Node only
			continue
		}
		found = true
		ready, since := readySince(p)
		if least, most := age(p.Name, ready, since); ready && (!was || least >= podBackFor) || !ready && !was && most < podSilentFor {
			silent = false
		}
	}
	return found && silent || !found && was && pods != nil
}

// readySince reports whether a pod is Ready, and since when it is, or is not.
func readySince(p *corev1.Pod) (ready bool, since time.Time) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, p.CreationTimestamp.Time
}

// ages tells for how long something is as it is, since the time that is said of it: at least by this machine's clock, and at most by either.
type ages func(name string, ready bool, since time.Time) (least, most time.Duration)
