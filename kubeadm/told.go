package kubeadm

import (
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// Told is an argument that a ClusterConfiguration gives a component of the control plane.
type Told struct {
	// Component is the field: apiServer, controllerManager, scheduler.
	Component string
	// Name is without dashes in front.
	Name, Value string
	// Path is that of the field, for people.
	Path string
}

// ToldComponents lists the arguments of the control plane's components.
func (f *File) ToldComponents() []Told {
	var list []Told
	for _, component := range []string{"apiServer", "controllerManager", "scheduler"} {
		for _, a := range extraArgs(f.value(clusterConfigKind, component, "extraArgs")) {
			list = append(list, Told{component, a.name, a.value, component + ".extraArgs." + a.name})
		}
	}
	return list
}

// FeatureGates lists the names of kubeadm's own that a ClusterConfiguration sets.
func (f *File) FeatureGates() []string {
	n := f.value(clusterConfigKind, "featureGates")
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var names []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		names = append(names, edit.Scalar(n.Content[i]))
	}
	return names
}
