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
	// Changing says that its controller has not seen it as it is, or that it is being deleted: the numbers are of before.
	Changing bool `json:"changing,omitempty"`
	// Unready are its pods that are not ready, where it lacks some.
	Unready []corev1.Pod `json:"unready,omitempty"`
}

// PodNetworkOf tells whether a DaemonSet brings a CNI plugin: its pods have the network of the machine, and write where container runtimes
// look for plugins.
func PodNetworkOf(d *appsv1.DaemonSet) (PodNetwork, bool) {
	pod := &d.Spec.Template.Spec
	writes := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && (strings.HasPrefix(v.HostPath.Path, "/etc/cni/net.d") || strings.HasPrefix(v.HostPath.Path, "/opt/cni/bin"))
	})
	n := PodNetwork{
		Namespace: d.Namespace, Name: d.Name, Wanted: d.Status.DesiredNumberScheduled, Ready: d.Status.NumberReady,
		Changing: d.Status.ObservedGeneration < d.Generation || d.DeletionTimestamp != nil,
	}
	return n, pod.HostNetwork && writes
}

// LackingNetwork is the one that lacks a ready pod: of several, that with one on the Node which is not ready, since one that is chained to the
// pod network's may lack pods elsewhere. Nil: none lacks any.
func LackingNetwork(installed []PodNetwork, node string) *PodNetwork {
	var lacking *PodNetwork
	for i := range installed {
		switch n := &installed[i]; {
		case n.unreadyOn(node) != nil:
			return n
		case lacking == nil && n.Ready < n.Wanted:
			lacking = n
		}
	}
	return lacking
}

// unreadyOn is its pod on a Node that is not ready; nil: none was seen.
func (n *PodNetwork) unreadyOn(node string) *corev1.Pod {
	at := slices.IndexFunc(n.Unready, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	if at < 0 {
		return nil
	}
	return &n.Unready[at]
}

// withoutNetwork says what to do where a Node has no CNI plugin: one that is installed, and whose pods are not ready, need not be installed.
func withoutNetwork(f *finding.Finding, node string, installed []PodNetwork) {
	f.Do, f.Next = "install a CNI plugin", ""
	n := LackingNetwork(installed, node)
	if n == nil {
		if len(installed) == 0 || slices.ContainsFunc(installed, func(n PodNetwork) bool { return n.Wanted > 0 }) {
			return // one that wants no pod may be for another architecture
		}
		n = &installed[0]
	}
	f.Message += fmt.Sprintf("; DaemonSet/%s/%s brings a CNI plugin, and %d of %d of its pods are ready", n.Namespace, n.Name, n.Ready, n.Wanted)
	f.Do = "correct what keeps the DaemonSet's pods from being ready"
	// logs daemonset/NAME would show a pod of any Node
	logs := fmt.Sprintf("kubectl -n %s get pods --field-selector spec.nodeName=%s -o name | xargs -n 1 kubectl -n %[1]s logs --all-containers --tail=20",
		n.Namespace, node)
	if p := n.unreadyOn(node); p != nil {
		logs = fmt.Sprintf("kubectl -n %s logs %s --all-containers --tail=20", n.Namespace, p.Name)
	}
	f.Next = fmt.Sprintf("kubectl -n %s describe daemonset %s; %s", n.Namespace, n.Name, logs)
}
