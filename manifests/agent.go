package manifests

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

func agentName(p *templates.Profile, a templates.Agent) string { return p.Name + "-" + a.Name }

// agent returns the DaemonSet of a program that runs on every Linux node, whatever its taints: some providers
// initialize nodes with it.
func agent(p *templates.Profile, a templates.Agent, v templates.Values) (*appsv1.DaemonSet, error) {
	name := agentName(p, a)
	t := corev1.PodTemplateSpec{}
	t.Labels = map[string]string{v1alpha1.NameLabel: name, v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
	if err := load("pod.yaml", &t.Spec); err != nil {
		return nil, err
	}
	c := &t.Spec.Containers[0]
	c.Name, c.Command = a.Name, a.Command
	c.Ports, c.StartupProbe, c.LivenessProbe = nil, nil, nil
	var err error
	if c.Image, err = p.ContainerImage(a.Image, v); err != nil {
		return nil, err
	}
	if c.Args, err = p.ExpandAgentArgs(a, v); err != nil {
		return nil, err
	}
	if err := setEnvironment(&t.Spec, p, a.Container, v); err != nil {
		return nil, err
	}
	if err := schedule(&t.Spec, name, v); err != nil {
		return nil, err
	}
	t.Spec.Affinity = nil
	t.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
	t.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return daemonSet(name, map[string]string{v1alpha1.NameLabel: name}, t), nil
}
