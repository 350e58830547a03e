package kubeadm

import (
	"slices"
	"strings"
)

// The API groups of Cluster API: two have kubeadm's configuration in their objects
// (https://github.com/kubernetes-sigs/cluster-api, bootstrap/kubeadm/api and controlplane/kubeadm/api).
const (
	bootstrapGroup    = "bootstrap.cluster.x-k8s.io"
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
	clusterGroup      = "cluster.x-k8s.io"
)

// clusterAPIKinds says where in an object kubeadm's configuration is.
func clusterAPIKinds() map[string][]string {
	return map[string][]string{
		"KubeadmConfig":               {"spec"},
		"KubeadmConfigTemplate":       {"spec", "template", "spec"},
		"KubeadmControlPlane":         {"spec", "kubeadmConfigSpec"},
		"KubeadmControlPlaneTemplate": {"spec", "template", "spec", "kubeadmConfigSpec"},
	}
}

// Minors are the minor versions that the file names: that of kubeadm init, and those of machines of Cluster API, whose templates have
// none of their own.
func (f *File) Minors() []int {
	var list []int
	if minor, known := f.Minor(); known {
		list = append(list, minor)
	}
	for _, d := range f.docs {
		path := []string{"spec", "version"}
		switch d.text("kind") {
		case "KubeadmControlPlane":
		case "MachineDeployment", "MachinePool":
			path = []string{"spec", "template", "spec", "version"}
		case "Cluster":
			path = []string{"spec", "topology", "version"}
		default:
			continue
		}
		group, _, _ := strings.Cut(d.text("apiVersion"), "/")
		if minor, known := minorOf(d.text(path...)); known && (group == controlPlaneGroup || group == clusterGroup) {
			list = append(list, minor)
		}
	}
	return list
}

// clusterAPI looks at a document of Cluster API's. A control plane initializes one machine and lets others join, so
// both configurations count; workers only join.
func (l *inspection) clusterAPI(d *document) {
	group, apiVersion, _ := strings.Cut(d.text("apiVersion"), "/")
	base, known := clusterAPIKinds()[d.text("kind")]
	if !known || group != bootstrapGroup && group != controlPlaneGroup {
		return
	}
	names := slices.DeleteFunc(
		[]string{d.text("kind"), d.text("metadata", "namespace"), d.text("metadata", "name")},
		func(s string) bool { return s == "" },
	)
	form := v1beta4
	if apiVersion == "v1beta1" || strings.HasPrefix(apiVersion, "v1alpha") { // extra arguments were mappings
		form = v1beta3
	}
	minor := l.minor
	if own, known := minorOf(d.text("spec", "version")); known {
		minor = own
	}
	of := func(kind, field string) part {
		return part{
			doc:        d,
			base:       slices.Concat(base, []string{field}),
			kind:       kind,
			object:     strings.Join(names, "/"),
			apiVersion: form,
			minor:      minor,
		}
	}
	start, join := of(RoleInit.kind(), "initConfiguration"), of(RoleJoin.kind(), "joinConfiguration")
	switch {
	case group == controlPlaneGroup:
		l.kubelet(start)
		l.kubelet(join)
	case start.value() != nil:
		l.kubelet(start)
	default:
		l.kubelet(join)
	}
	l.controlPlane(of(clusterConfigKind, "clusterConfiguration"))
}
