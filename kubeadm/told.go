package kubeadm

import (
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// Told is an argument that a ClusterConfiguration gives a component of the control plane.
type Told struct {
	// Component is the field: apiServer, controllerManager, scheduler, etcd.
	Component string
	// Name is without dashes in front.
	Name, Value string
	// Path is that of the field, for people.
	Path string
}

// argsPath is where a component's arguments are.
func argsPath(component string) []string {
	if component == "etcd" {
		return []string{"etcd", "local", "extraArgs"}
	}
	return []string{component, "extraArgs"}
}

// ToldComponents lists the arguments of the control plane's components.
func (f *File) ToldComponents() []Told {
	var list []Told
	for _, component := range []string{"apiServer", "controllerManager", "scheduler", "etcd"} {
		path := argsPath(component)
		for _, a := range extraArgs(f.value(clusterConfigKind, path...)) {
			list = append(list, Told{component, a.name, a.value, strings.Join(append(path, a.name), ".")})
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
