package nodes

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
)

// PodNetwork is a DaemonSet that brings a CNI plugin.
type PodNetwork struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Wanted is how many pods its controller wants, Ready how many are ready.
	Wanted int32 `json:"wanted"`
	Ready  int32 `json:"ready"`
}

// PodNetworkOf tells whether a DaemonSet brings a CNI plugin: its pods have the network of the machine, and write where container runtimes
// look for plugins.
func PodNetworkOf(d *appsv1.DaemonSet) (PodNetwork, bool) {
	pod := &d.Spec.Template.Spec
	writes := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && (strings.HasPrefix(v.HostPath.Path, "/etc/cni/net.d") || strings.HasPrefix(v.HostPath.Path, "/opt/cni/bin"))
	})
	return PodNetwork{d.Namespace, d.Name, d.Status.DesiredNumberScheduled, d.Status.NumberReady}, pod.HostNetwork && writes
}

// withoutNetwork says what to do where a Node has no CNI plugin: one that is installed, and whose pods are not ready, need not be installed.
func withoutNetwork(f *finding.Finding, installed []PodNetwork) {
	f.Do, f.Next = "install a CNI plugin", ""
	broken := slices.IndexFunc(installed, func(n PodNetwork) bool { return n.Ready < n.Wanted })
	wanted := slices.ContainsFunc(installed, func(n PodNetwork) bool { return n.Wanted > 0 })
	switch {
	case broken >= 0:
	case wanted || len(installed) == 0: // one that wants no pod may be for another architecture
		return
	default:
		broken = 0
	}
	n := &installed[broken]
	f.Message += fmt.Sprintf("; DaemonSet/%s/%s brings a CNI plugin, and %d of %d of its pods are ready", n.Namespace, n.Name, n.Ready, n.Wanted)
	f.Do = "correct what keeps the DaemonSet's pods from being ready"
	f.Next = fmt.Sprintf("kubectl -n %s describe daemonset %s; kubectl -n %s logs daemonset/%s --all-containers --tail=20",
		n.Namespace, n.Name, n.Namespace, n.Name)
}
