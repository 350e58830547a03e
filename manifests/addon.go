package manifests

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// Addon returns the workload of modes DaemonSet and Deployment, and in every mode the provider's agents, which run on
// each node. Pods live in the machine's network, so an update has to free the port before it takes it: never a surge.
func Addon(p *templates.Profile, v templates.Values) ([]*Object, error) {
	if err := check(p, v); err != nil {
		return nil, fmt.Errorf("render addon: %w", err)
	}
	var list []metav1.Object
	if v.Mode != templates.StaticPod {
		w, err := workload(p, v)
		if err != nil {
			return nil, fmt.Errorf("render addon: %w", err)
		}
		list = append(list, w)
	}
	for _, a := range p.Agents {
		w, err := agent(p, a, v)
		if err != nil {
			return nil, fmt.Errorf("render addon: %w", err)
		}
		list = append(list, w)
	}
	if p.NeedsApprover(v) {
		w, err := approver(p, v)
		if err != nil {
			return nil, fmt.Errorf("render addon: %w", err)
		}
		list = append(list, w)
	}
	return toObjects(list...)
}

func workload(p *templates.Profile, v templates.Values) (metav1.Object, error) {
	template, err := podTemplate(p, v)
	if err != nil {
		return nil, err
	}
	selector := map[string]string{v1alpha1.NameLabel: WorkloadName(p)}
	template.Labels[v1alpha1.NameLabel] = WorkloadName(p)
	template.Labels[v1alpha1.ManagedByLabel] = v1alpha1.FieldManager
	if v.Mode == templates.Deployment {
		return deployment(p, selector, *template), nil
	}
	return daemonSet(WorkloadName(p), selector, *template), nil
}

// WorkloadName is that of a profile's DaemonSet or Deployment, and of its ServiceAccount.
func WorkloadName(p *templates.Profile) string { return p.Name + "-" + v1alpha1.Component }

func daemonSet(name string, selector map[string]string, template corev1.PodTemplateSpec) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: objectMeta(name),
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: template,
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type: appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{
					MaxSurge:       new(intstr.FromInt32(0)),
					MaxUnavailable: new(intstr.FromInt32(1)),
				},
			},
		},
	}
}

// deployment leaves the number of replicas to the API server's default, 1, and to `kubectl scale`: what it does not say
// it does not take back. Each needs a control-plane node of its own, for the port.
func deployment(
	p *templates.Profile, selector map[string]string, template corev1.PodTemplateSpec,
) *appsv1.Deployment {
	template.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: selector},
			TopologyKey:   corev1.LabelHostname,
		}},
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: objectMeta(WorkloadName(p)),
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: template,
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{
					MaxSurge:       new(intstr.FromInt32(0)),
					MaxUnavailable: new(intstr.FromInt32(1)),
				},
			},
		},
	}
}
