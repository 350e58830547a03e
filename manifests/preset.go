package manifests

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/templates"
)

// Preset is what every pod has that the scheduler places, whatever the provider.
func Preset() (*corev1.PodSpec, error) {
	spec := &corev1.PodSpec{}
	if err := load("pod.yaml", spec); err != nil {
		return nil, err
	}
	return spec, load("scheduled.yaml", spec)
}

// CoreRules is what every cloud-controller-manager may do, with the reasons.
func CoreRules() ([]templates.Rule, error) {
	var rules []templates.Rule
	return rules, load("core.yaml", &rules)
}
