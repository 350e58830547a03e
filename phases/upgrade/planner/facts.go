// Package planner plans the upgrade of a cluster in external cloud mode: what kubeadm's own plan does not know of.
//
// Start at [New]: it makes a [Plan] of [Facts], and asks no one. File target.go says whether the version can be reached,
// flags.go what components of that version refuse, manager.go which release of the cloud-controller-manager goes with
// it, steps.go in which order it is done.
//
// Reads and writes: nothing. The same facts give the same plan. It will not: gather the facts (package upgrade does), or
// carry the plan out.
package planner

import (
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/templates"
)

// Facts are what was seen of a cluster, from one of its control planes.
type Facts struct {
	// Asked is the version that the user named, as v1.36.3.
	Asked string
	// Oldest and Newest are the minors that this release of ccmadm knows, as 1.36.
	Oldest, Newest string
	// Kubeadm is the version of the one on this machine; empty: there is none.
	Kubeadm string
	// Cluster is the version in the live kubeadm configuration.
	Cluster string
	// Here is this machine's Node.
	Here string
	// Nodes are all of the cluster, by name.
	Nodes []Node
	// Record is the cluster's.
	Record *state.Record
	// Profile is that of its provider.
	Profile *templates.Profile
	// Proxy is the version of kube-proxy, by its DaemonSet; empty: there is none, or it is not known.
	Proxy string
	// ProxyMode is what its configuration says: ipvs, iptables, nftables; empty: the default.
	ProxyMode string
	// EventsUnset says that the kubelets' configuration has eventRecordQPS: 0.
	EventsUnset bool
	// ExternalIPs are Services that have some, as NAMESPACE/NAME.
	ExternalIPs []string
	// CutShort is the command that goes on with an upgrade to Asked that kubeadm has begun on this machine, and not
	// finished; empty: there is none.
	CutShort string
	// Image is the cloud-controller-manager's that the user names for the target; empty: the profile's.
	Image string
	// Version is ccmadm's own.
	Version string
	// Uses are the arguments and feature gates that components have, wherever they were found.
	Uses []Use
	// Unseen are Nodes whose kubelets' arguments or feature gates cannot be seen from here.
	Unseen []string
	// Images are those of kubeadm for the target; empty where the installed kubeadm cannot say it.
	Images []string
	// Via is how other machines are upgraded from here, pods or ssh; empty: by hand, there.
	Via string
	// Again are the further flags of the command that does so.
	Again []string
	// Patches are what is wrong with kubeadm's patches on this machine.
	Patches []finding.Finding
	// Told is what they have said of themselves, by Node.
	Told map[string]Told
	// Troubles are what is wrong with the cluster already.
	Troubles []finding.Finding
}

// Node is a machine of the cluster.
type Node struct {
	Name         string
	ControlPlane bool
	// Kubelet is its kubelet's version, APIServer that of its static pod by the image; empty: not known.
	Kubelet, APIServer string
	// Schedulable says that it is not cordoned, and Refuses names the taint that keeps kubeadm's Job from it.
	Schedulable bool
	Refuses     string
	// Architecture is the machine's, as amd64, and Runtime its container runtime, as containerd://2.1.5.
	Architecture, Runtime string
	// Ccmadm is the release of the one that has worked there last; empty: not known.
	Ccmadm string
	// Manager is the image of the cloud-controller-manager that runs there; empty: none does.
	Manager string
}

// Component is a program that is told something.
type Component string

// The components.
const (
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Scheduler         Component = "kube-scheduler"
	Etcd              Component = "etcd"
	Kubelet           Component = "kubelet"
	Manager           Component = "cloud-controller-manager"
	Kubeadm           Component = "kubeadm"
	Proxy             Component = "kube-proxy"
)

// Gates is the argument with feature gates, Controllers that with the controllers that run. GatePrefix begins the name of a
// Use that is one of the gates.
const (
	Gates      = "feature-gates"
	GatePrefix = Gates + "."

	Controllers = "controllers"
)

// KubeletConfiguration is where a kubelet has what it does not have by its arguments.
const KubeletConfiguration = "the kubelet's configuration"

// Use is one argument, or one feature gate, of a component.
type Use struct {
	Component Component
	// Name is without dashes: cloud-config, feature-gates.MemoryManager.
	Name, Value string
	// Where is the object, or the file and line, and Node whose it is; empty: the whole cluster's.
	Where, Node string
	// Told says that the Node's kubelet has said so of itself.
	Told bool
	// Rewritten says that kubeadm writes the place anew in an upgrade, from what it has elsewhere.
	Rewritten bool
	// Cleaned says that `ccmadm upgrade apply` takes it away before kubeadm reads the place.
	Cleaned bool
}
