package phases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
)

func staticManager(d *Data) (*manager, error) {
	pod, err := readStaticPod(d.Machine, machine.CCMManifest)
	if err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, fmt.Errorf("look for the static pod: there is no %s", machine.CCMManifest)
	}
	node, err := nodeName(d)
	return &manager{pod: pod, node: node}, err
}

// readStaticPod is the pod of a manifest of this machine; nil: there is no such file.
func readStaticPod(m *machine.Machine, path string) (*corev1.Pod, error) {
	data, err := m.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a static pod: %w", err)
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &pod, nil
}

// nameOthers tells on which control planes the manager is not yet as it was applied here: those with another static
// pod, or with none, or in the other modes with one.
func (m *manager) nameOthers(ctx context.Context, d *Data, client kubernetes.Interface) error {
	pods, err := staticPods(ctx, client)
	if err != nil {
		return err
	}
	var others []string
	if m.pod == nil {
		for i := range pods {
			others = append(others, pods[i].Spec.NodeName)
		}
	} else if others, err = m.without(ctx, client, pods); err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(node string) bool { return node == m.node })
	if slices.Sort(others); len(others) > 0 {
		d.Sayf("not yet on %s: run `%s` there, too", strings.Join(others, ", "), d.Operation.Elsewhere())
	}
	if m.pod == nil {
		return sayForgotten(ctx, d, client)
	}
	return nil
}

// without are the control planes whose static pod is not one like this machine's.
func (m *manager) without(ctx context.Context, client kubernetes.Interface, pods []corev1.Pod) ([]string, error) {
	names, err := controlPlaneNames(ctx, client)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		same := m.same(&pods[i])
		names = slices.DeleteFunc(names, func(name string) bool { return name == pods[i].Spec.NodeName })
		if !same {
			names = append(names, pods[i].Spec.NodeName)
		}
	}
	return names, nil
}

// staticPods are those of all control planes, as their kubelets show them. Any kubelet may show such a pod as its own:
// that of a worker is none.
func staticPods(ctx context.Context, client kubernetes.Interface) ([]corev1.Pod, error) {
	pods, err := shownPods(ctx, client)
	if err != nil || len(pods) == 0 {
		return nil, err
	}
	names, err := controlPlaneNames(ctx, client)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !slices.Contains(names, p.Spec.NodeName) }), nil
}

// shownPods are the manager's static pods that kubelets show.
func shownPods(ctx context.Context, client kubernetes.Interface) ([]corev1.Pod, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: map[string]string{
		v1alpha1.ComponentLabel: v1alpha1.Component,
	}})
	list, err := client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list the static pods of the cloud-controller-manager: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { // the kubelet alone makes these
		return !nodes.IsMirror(&p) || p.Name != v1alpha1.Component+"-"+p.Spec.NodeName
	}), nil
}

// same tells whether a pod is made from this machine's manifest: what the API server fills in does not count. Another
// machine's has its own identity and its own proxies.
func (m *manager) same(pod *corev1.Pod) bool {
	if len(pod.Spec.Containers) != 1 || len(m.pod.Spec.Containers) != 1 ||
		pod.Annotations[v1alpha1.HashAnnotation] != m.pod.Annotations[v1alpha1.HashAnnotation] {
		return false
	}
	a, b := pod.Spec.Containers[0], m.pod.Spec.Containers[0]
	if pod.Spec.NodeName != m.node {
		return a.Image == b.Image && slices.Equal(a.Args, b.Args) && slices.Equal(a.Command, b.Command) && sameEnv(pod, m.pod)
	}
	return pod.Annotations[v1alpha1.KubeconfigHashAnnotation] == m.pod.Annotations[v1alpha1.KubeconfigHashAnnotation] &&
		equality.Semantic.DeepEqual(given(a), given(b)) &&
		equality.Semantic.DeepDerivative(m.pod.Spec.Volumes, pod.Spec.Volumes)
}

// given is what a manifest says of a container, and no API server adds to.
func given(c corev1.Container) corev1.Container {
	return corev1.Container{
		Name: c.Name, Image: c.Image, Command: c.Command, Args: c.Args, Env: c.Env, VolumeMounts: c.VolumeMounts,
		Resources: c.Resources, SecurityContext: c.SecurityContext,
	}
}
