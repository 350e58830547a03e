// Package components compares a cluster that kubeadm made with what such a cluster consists of: which component belongs on
// which Nodes, how many of each are wanted, and how many are ready. It finds a deviation also where nothing is known of its
// cause; Events, the state of pods and their logs add the cause where they tell it.
//
// Start at [Expected], the table of kubeadm's components, and at [Judge], [JudgeKubeadm] and [JudgeServices]. A [Collector] takes what the lists of a snapshot
// show of namespace kube-system, and keeps of healthy pods their number alone.
//
// It reads and writes nothing.
package components

import (
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// The components of kubeadm, as the label "component" of static pods and the names of workloads have them.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Etcd              = "etcd"
	Proxy             = "kube-proxy"
	DNS               = "coredns"
	NodeAgent         = "ccmadm-node-agent"
)

// Place says on which Nodes a component belongs.
type Place string

// The places.
const (
	// EachControlPlane is a static pod on each control plane.
	EachControlPlane Place = "each control plane"
	// EachNode is a DaemonSet with a pod on each Node.
	EachNode Place = "each Node"
	// Anywhere is a Deployment of which at least one pod is ready.
	Anywhere Place = "any Node"
)

// Component is one row of what kubeadm's clusters consist of.
type Component struct {
	Name  string
	Place Place
	// Lease is held by the active one of several. Empty: all are active.
	Lease string
	// Without says what does not work without it.
	Without string
	// Selector is the nodeSelector that kubeadm writes.
	Selector map[string]string
}

// Expected lists the components that `kubeadm init` makes (kubernetes cmd/kubeadm/app/phases/controlplane, etcd, addons), and
// the agent of provider onprem. A DaemonSet or Deployment that is not there was left out (--skip-phases addon/kube-proxy), unless the
// ConfigMap is there that kubeadm makes with it.
func Expected() []Component {
	linux := map[string]string{corev1.LabelOSStable: "linux"}
	return []Component{
		{Name: Etcd, Place: EachControlPlane, Without: "etcd has one member less to lose, or no quorum"},
		{Name: APIServer, Place: EachControlPlane, Without: "clients of this API server get no answer"},
		{
			Name: ControllerManager, Place: EachControlPlane, Lease: ControllerManager,
			Without: "no Deployment, DaemonSet, endpoint, token or certificate is reconciled",
		},
		{Name: Scheduler, Place: EachControlPlane, Lease: Scheduler, Without: "no pod is placed on a Node"},
		{Name: Proxy, Place: EachNode, Without: "Services do not answer on the Node", Selector: linux},
		{Name: DNS, Place: Anywhere, Without: "names of Services do not resolve", Selector: linux},
		{Name: NodeAgent, Place: EachNode, Without: "the Node announces no address of a load balancer, and gets no routes"},
	}
}

// lost says what is lost where it does not work on one Node, and is ready on so many others.
func (c Component) lost(ready int) string {
	if c.Lease != "" && ready > 0 {
		return "another control plane does its work, and one fewer of them can fail"
	}
	return c.Without
}

// Seen is what a cluster has in namespace kube-system, besides cloud-controller-managers.
type Seen struct {
	Workloads []Workload `json:"workloads,omitempty"`
	// Configured are the names of workloads whose ConfigMap is there, as kubeadm makes both.
	Configured []string `json:"configured,omitempty"`
	// Static are kubeadm's static pods, ready or not, and others that are not ready.
	Static []corev1.Pod `json:"static,omitempty"`
	// Joining are the addresses that API servers advertise on Nodes without the label of control planes, which kubeadm writes last.
	Joining []string `json:"joining,omitempty"`
	// Unready are pods of workloads that are not ready, at most [MostUnready].
	Unready []corev1.Pod `json:"unready,omitempty"`
	// Services are those that every cluster depends on.
	Services []Service `json:"services,omitempty"`
	// Resolvers are the cluster IPs of Services with port UDP 53, outside of kube-system of at most [mostResolvers] of them.
	Resolvers []string `json:"resolvers,omitempty"`
	// Sandboxes are Nodes on which pods of any namespace get none.
	Sandboxes []Sandbox `json:"sandboxes,omitempty"`
	// Logs are the last lines of unready pods, by name.
	Logs map[string][]string `json:"logs,omitempty"`
}

// Has tells whether there is a workload of a name.
func (s *Seen) Has(name string) bool {
	return s != nil && slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Name == name })
}

// RunsAs tells whether there is a workload of a name, with a ServiceAccount of the same name as kubeadm makes it.
func (s *Seen) RunsAs(name string) bool {
	return s != nil && slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Name == name && w.Account == name })
}

// ReadyOn tells whether a DaemonSet's pod is ready on a Node, as far as it was seen.
func (s *Seen) ReadyOn(name, node string) bool {
	if s == nil {
		return false
	}
	i := slices.IndexFunc(s.Workloads, func(w Workload) bool { return w.Kind == daemonSet && w.Name == name })
	if i < 0 || s.Workloads[i].Ready == 0 {
		return false
	}
	if w := &s.Workloads[i]; w.Ready >= w.Wanted {
		return true
	}
	return slices.Contains(s.Workloads[i].Nodes, node) && !slices.ContainsFunc(s.Unready, func(p corev1.Pod) bool {
		kind, of := Owner(&p)
		return kind == daemonSet && of == name && p.Spec.NodeName == node
	})
}

// Crashed are those of [Crashed] among all that was seen.
func (s *Seen) Crashed(most int, all []corev1.Node, now time.Time) []corev1.Pod {
	return Crashed(slices.Concat(s.Static, s.Unready), most, all, now)
}

// Crashed are pods whose log tells what is wrong: those that have ended and are started again, and after them those that run on a Node
// which is Ready, and have not been ready for longer than starting takes. At most so many, and no two of one workload or component.
func Crashed(pods []corev1.Pod, most int, all []corev1.Node, now time.Time) []corev1.Pod {
	ended := func(p *corev1.Pod) bool {
		return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
			return c.State.Running == nil && c.LastTerminationState.Terminated != nil
		})
	}
	fails := func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && !nodes.IsPodReady(p) && lasts(p, now) &&
			slices.ContainsFunc(all, func(n corev1.Node) bool { return n.Name == p.Spec.NodeName && nodestatus.IsReady(&n) })
	}
	var list []corev1.Pod
	known := map[string]bool{}
	for _, tells := range []func(*corev1.Pod) bool{ended, fails} {
		for _, p := range pods {
			kind, name := Owner(&p)
			key := kind + "/" + name
			if kind == "" {
				key = p.Name
			}
			if len(list) < most && !known[key] && tells(&p) {
				known[key] = true
				list = append(list, p)
			}
		}
	}
	return list
}

// KeepLog adds the last lines of a pod.
func (s *Seen) KeepLog(pod string, lines []string) {
	if s.Logs == nil {
		s.Logs = map[string][]string{}
	}
	s.Logs[pod] = lines
}

// Workload is a DaemonSet or Deployment.
type Workload struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Wanted is how many pods its controller wants, Ready how many are ready; Observed says that its controller has seen it as it is.
	Wanted   int32 `json:"wanted"`
	Ready    int32 `json:"ready"`
	Observed bool  `json:"observed"`
	// Selector is the nodeSelector of its pods.
	Selector map[string]string `json:"selector,omitempty"`
	// Account is the ServiceAccount of its pods.
	Account string `json:"account,omitempty"`
	// Nodes have a pod of a DaemonSet. Empty where every wanted pod is ready.
	Nodes []string `json:"nodes,omitempty"`
}

// Cluster is what else a judgement needs.
type Cluster struct {
	// Now is when all was seen.
	Now    time.Time
	Nodes  []corev1.Node
	Leases []coordinationv1.Lease
	// Events are warnings of kube-system, and of namespaces of CNI plugins that lack pods.
	Events []corev1.Event
	// ServiceSubnet and PodSubnet are of kubeadm's ClusterConfiguration. Empty: it has none, or its extraArgs win.
	ServiceSubnet, PodSubnet string
	// APIVersion is that of the ClusterConfiguration, EtcdDataDir its etcd.local.dataDir. Empty: it is not known.
	APIVersion, EtcdDataDir string
	// PKI is the directory of certificates.
	PKI string
	// ServicesSeen says that Services could be listed; DNSAddress is what kubelets tell pods to ask (clusterDNS), empty: it is not known.
	ServicesSeen bool
	DNSAddress   string
	// ExternalEtcd says that kubeadm did not make etcd; Kubeadm that kubeadm's configuration is in the cluster.
	ExternalEtcd, Kubeadm bool
	// Undone are certificate requests that wait for kube-controller-manager.
	Undone []certificatesv1.CertificateSigningRequest
	// Networks are DaemonSets that bring CNI plugins.
	Networks []nodes.PodNetwork
	// Listed says of a namespace outside of kube-system that pods of Networks there could be listed.
	Listed func(namespace string) bool
	// NotServed are built-in lists to which the API server answers that there is no such resource.
	NotServed []string
	// Manager is the workload that initializes Nodes, as DaemonSet/kube-system/NAME: it is judged elsewhere.
	Manager string
	// Skip says of a Node that its state is said elsewhere: its pods are no deviation of their own.
	Skip func(node string) bool
	// Faulty says of a Node that there is a finding about its state, or its taints: pods that it keeps out are no deviation of their own.
	Faulty func(node string) bool
}
