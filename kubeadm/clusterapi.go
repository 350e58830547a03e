package kubeadm

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

// The API groups of Cluster API that have kubeadm's configuration in their objects
// (https://github.com/kubernetes-sigs/cluster-api, bootstrap/kubeadm/api and controlplane/kubeadm/api).
const (
	bootstrapGroup    = "bootstrap.cluster.x-k8s.io"
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
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

// clusterAPI looks at a document of Cluster API's. A control plane initializes one machine and lets others join, so
// both configurations count; workers only join.
func (l *inspection) clusterAPI(d *document) {
	if d.Root == nil {
		return
	}
	text := func(path ...string) string {
		n := d.Root
		for _, key := range path {
			n = edit.Lookup(n, key)
		}
		return edit.Scalar(n)
	}
	group, apiVersion, _ := strings.Cut(text("apiVersion"), "/")
	base, known := clusterAPIKinds()[text("kind")]
	if !known || group != bootstrapGroup && group != controlPlaneGroup {
		return
	}
	names := slices.DeleteFunc(
		[]string{text("kind"), text("metadata", "namespace"), text("metadata", "name")},
		func(s string) bool { return s == "" },
	)
	form := v1beta4
	if apiVersion == "v1beta1" || strings.HasPrefix(apiVersion, "v1alpha") { // extra arguments were mappings
		form = v1beta3
	}
	minor := l.minor
	if v, err := version.ParseGeneric(text("spec", "version")); err == nil {
		minor = int(v.Minor())
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
