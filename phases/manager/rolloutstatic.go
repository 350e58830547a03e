package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// StaticManager is the manager of this machine's manifest.
func StaticManager(h *workflow.Host) (*Wanted, error) {
	pod, err := record.ReadStaticPod(h.Machine, machine.CCMManifest)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, fmt.Errorf("look for the static pod: there is no %s", machine.CCMManifest)
	}
	node, err := workflow.NodeName(h)
	return &Wanted{Pod: pod, Node: node}, err
}

// NameOthers tells on which control planes the manager is not yet as it was applied here: those with another static
// pod, or with none, or in the other modes with one.
func (m *Wanted) NameOthers(ctx context.Context, r *workflow.Run, client kubernetes.Interface) error {
	pods, err := record.StaticPods(ctx, client)
	if err != nil {
		return err
	}
	var others []string
	if m.Pod == nil {
		for i := range pods {
			others = append(others, pods[i].Spec.NodeName)
		}
	} else if others, err = m.without(ctx, client, pods); err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(node string) bool { return node == m.Node })
	if slices.Sort(others); len(others) > 0 {
		r.Sayf("not yet on %s: run `%s` there, too", strings.Join(others, ", "), r.Operation.Elsewhere())
	}
	if m.Pod == nil {
		return sayForgotten(ctx, r.Env, client)
	}
	return nil
}

// without are the control planes whose static pod is not one like this machine's.
func (m *Wanted) without(ctx context.Context, client kubernetes.Interface, pods []corev1.Pod) ([]string, error) {
	names, err := record.ControlPlaneNames(ctx, client)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		same := m.Same(&pods[i])
		names = slices.DeleteFunc(names, func(name string) bool { return name == pods[i].Spec.NodeName })
		if !same {
			names = append(names, pods[i].Spec.NodeName)
		}
	}
	return names, nil
}

// Same tells whether a pod is made from this machine's manifest: what the API server fills in does not count. Another
// machine's has its own identity and its own proxies.
func (m *Wanted) Same(pod *corev1.Pod) bool {
	if len(pod.Spec.Containers) != 1 || len(m.Pod.Spec.Containers) != 1 ||
		pod.Annotations[v1alpha1.HashAnnotation] != m.Pod.Annotations[v1alpha1.HashAnnotation] {
		return false
	}
	a, b := pod.Spec.Containers[0], m.Pod.Spec.Containers[0]
	if pod.Spec.NodeName != m.Node {
		return a.Image == b.Image && slices.Equal(a.Args, b.Args) && slices.Equal(a.Command, b.Command) && record.SameEnv(pod, m.Pod)
	}
	return pod.Annotations[v1alpha1.KubeconfigHashAnnotation] == m.Pod.Annotations[v1alpha1.KubeconfigHashAnnotation] &&
		equality.Semantic.DeepEqual(given(a), given(b)) &&
		equality.Semantic.DeepDerivative(m.Pod.Spec.Volumes, pod.Spec.Volumes)
}

// given is what a manifest says of a container, and no API server adds to.
func given(c corev1.Container) corev1.Container {
	return corev1.Container{
		Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, Env: c.Env, VolumeMounts: c.VolumeMounts,
		Resources: c.Resources, SecurityContext: c.SecurityContext,
	}
}
