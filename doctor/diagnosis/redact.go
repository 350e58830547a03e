package diagnosis

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// trimMeta keeps of an object's metadata what a detector may ask for.
func trimMeta(m *metav1.ObjectMeta, annotations ...string) {
	kept := map[string]string{}
	for name, value := range m.Annotations {
		if slices.Contains(annotations, name) || strings.HasPrefix(name, v1alpha1.GroupName+"/") {
			kept[name] = redact.Text(value)
		}
	}
	m.Annotations, m.ManagedFields, m.UID, m.ResourceVersion = kept, nil, "", ""
}

func trimNode(n *corev1.Node) {
	trimMeta(&n.ObjectMeta, v1alpha1.ProvidedNodeIPAnnotation)
	n.Status = corev1.NodeStatus{
		Conditions: n.Status.Conditions,
		Addresses:  n.Status.Addresses,
		NodeInfo:   n.Status.NodeInfo,
	}
}

// trimLease keeps of who has written it when a kubelet has: that is by the API server's clock.
func trimLease(l *coordinationv1.Lease) {
	var kubelets []metav1.ManagedFieldsEntry
	for _, m := range l.ManagedFields {
		if m.Manager == nodes.Kubelet {
			kubelets = append(kubelets, metav1.ManagedFieldsEntry{Manager: m.Manager, Time: m.Time})
		}
	}
	l.ObjectMeta = metav1.ObjectMeta{
		Namespace: l.Namespace, Name: l.Name, CreationTimestamp: l.CreationTimestamp, ManagedFields: kubelets,
	}
}

func trimPod(p *corev1.Pod) {
	trimMeta(&p.ObjectMeta, corev1.MirrorPodAnnotationKey)
	trimPodSpec(&p.Spec)
	p.Status.EphemeralContainerStatuses = nil
	trimStatuses(p.Status.InitContainerStatuses)
	trimStatuses(p.Status.ContainerStatuses)
}

func trimStatuses(list []corev1.ContainerStatus) {
	for i := range list {
		s := &list[i]
		for _, state := range []*corev1.ContainerState{&s.State, &s.LastTerminationState} {
			if state.Waiting != nil {
				state.Waiting.Message = redact.Text(state.Waiting.Message)
			}
			if state.Terminated != nil {
				state.Terminated.Message = redact.Text(state.Terminated.Message)
			}
		}
	}
}

// trimPodSpec keeps of variables the names, and the values of those that say where the API server is.
func trimPodSpec(s *corev1.PodSpec) {
	s.InitContainers, s.EphemeralContainers = nil, nil
	for i := range s.Containers {
		c := &s.Containers[i]
		for j := range c.Env {
			if e := &c.Env[j]; e.Value != "" && !strings.HasPrefix(e.Name, "KUBERNETES_SERVICE_") {
				e.Value = redact.Mark
			}
		}
		redact.Args(c.Command)
		redact.Args(c.Args)
	}
}

// redactKubeadm takes credentials out of kubeadm's configuration. What cannot be read as such is left out.
func redactKubeadm(text string) string {
	var config map[string]any
	if yaml.Unmarshal([]byte(text), &config) != nil || len(config) == 0 {
		return ""
	}
	data, err := yaml.Marshal(redact.Value(config))
	if err != nil {
		return ""
	}
	return string(data)
}

func trimTemplate(meta *metav1.ObjectMeta, t *corev1.PodTemplateSpec) {
	trimMeta(meta)
	trimMeta(&t.ObjectMeta)
	trimPodSpec(&t.Spec)
}

func trimDeployment(d *appsv1.Deployment) { trimTemplate(&d.ObjectMeta, &d.Spec.Template) }

func trimDaemonSet(d *appsv1.DaemonSet) { trimTemplate(&d.ObjectMeta, &d.Spec.Template) }

func trimEvent(e *corev1.Event) {
	trimMeta(&e.ObjectMeta)
	e.Message = redact.Text(e.Message)
}

func trimService(s *corev1.Service) {
	trimMeta(&s.ObjectMeta)
	s.Spec.Selector = nil
}
