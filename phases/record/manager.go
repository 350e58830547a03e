package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// RunningPod is what the manager that runs was made from; nil: none is there. A change of mode that was cut short has
// left one of another mode than the record says.
func RunningPod(ctx context.Context, env *workflow.Env, s *settings.Settings) (*corev1.PodTemplateSpec, error) {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	for _, mode := range append([]config.Mode{s.Recorded.Configuration.Mode}, workflow.ManagedModes()...) {
		pod, err := podOfMode(ctx, env.Machine, client, mode, manifests.WorkloadName(s.Profile))
		if err != nil || pod != nil {
			return pod, err
		}
	}
	return nil, nil
}

func podOfMode(
	ctx context.Context, m *machine.Machine, client kubernetes.Interface, mode config.Mode, name string,
) (*corev1.PodTemplateSpec, error) {
	if mode == config.ModeStaticPod {
		pod, err := ReadStaticPod(m, machine.CCMManifest)
		if err != nil || pod == nil {
			return nil, err
		}
		return &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}, nil
	}
	live, err := GetWorkload(ctx, client, mode, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, finding.Refusedf("look at the cloud-controller-manager: %w", err).WithHint("nothing was changed")
	}
	if daemonSet, is := live.(*appsv1.DaemonSet); is {
		return &daemonSet.Spec.Template, nil
	}
	return &live.(*appsv1.Deployment).Spec.Template, nil
}

// GetWorkload asks for the manager's DaemonSet or Deployment, whichever the mode names.
func GetWorkload(ctx context.Context, client kubernetes.Interface, mode config.Mode, name string) (runtime.Object, error) {
	if mode == config.ModeDaemonSet {
		return client.AppsV1().DaemonSets(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
	return client.AppsV1().Deployments(v1alpha1.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// LiveVersion is the cluster's by kubeadm's live configuration, which an upgrade changes; empty where there is none.
func LiveVersion(ctx context.Context, env *workflow.Env) (string, error) {
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return "", err
	}
	file, err := workflow.LiveKubeadm(ctx, client)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", finding.Refusedf("ask for the version of the cluster: %w", err).WithHint("nothing was changed")
	}
	return file.KubernetesVersion(), nil
}

// ControlPlaneNames are the Nodes with the label of control planes.
func ControlPlaneNames(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ControlPlaneLabel})
	if err != nil {
		return nil, fmt.Errorf("list the control planes: %w", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, nil
}

// ReadStaticPod is the pod of a manifest of this machine; nil: there is no such file.
func ReadStaticPod(m *machine.Machine, path string) (*corev1.Pod, error) {
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

// StaticPods are those of all control planes, as their kubelets show them. Any kubelet may show such a pod as its own:
// that of a worker is none.
func StaticPods(ctx context.Context, client kubernetes.Interface) ([]corev1.Pod, error) {
	pods, err := ShownPods(ctx, client)
	if err != nil || len(pods) == 0 {
		return nil, err
	}
	names, err := ControlPlaneNames(ctx, client)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !slices.Contains(names, p.Spec.NodeName) }), nil
}

// ShownPods are the manager's static pods that kubelets show.
func ShownPods(ctx context.Context, client kubernetes.Interface) ([]corev1.Pod, error) {
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
