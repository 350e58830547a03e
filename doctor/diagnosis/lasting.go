package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	nodeutil "k8s.io/component-helpers/node/util"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/agreement"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
)

// readySince says for how long a Node has been Ready; less than 0 where it is not.
func (s *Snapshot) readySince(n *corev1.Node) time.Duration {
	_, c := nodeutil.GetNodeCondition(&n.Status, corev1.NodeReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return -1
	}
	return s.since(c.LastTransitionTime.Time)
}

func shutdown(s *Snapshot) []finding.Finding {
	var list []finding.Finding
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if nodes.IsShutDown(n) && s.readySince(n) > time.Minute {
			f := finding.ShutdownStays.New("Node/"+n.Name, fmt.Sprintf("it has taint %s, and is Ready", v1alpha1.ShutdownTaint))
			f.Next = "kubectl taint node " + n.Name + " " + v1alpha1.ShutdownTaint + "-"
			list = append(list, f)
		}
	}
	return list
}

// zones finds initialized Nodes without a zone where most have one.
func zones(v *view) []finding.Finding {
	var without []*corev1.Node
	providers := map[string]bool{} // that have given zones
	with := 0
	for i := range v.Nodes {
		n := &v.Nodes[i]
		switch {
		case n.Labels[corev1.LabelTopologyZone] != "":
			with++
			providers[scheme(n)] = true
		case n.Spec.ProviderID != "":
			without = append(without, n)
		}
	}
	if with <= len(without) {
		return nil
	}
	var list []finding.Finding
	for _, n := range without {
		f := finding.NoZone.New("Node/"+n.Name, "it is initialized, and has no label "+corev1.LabelTopologyZone)
		switch {
		case !providers[scheme(n)]:
			f.Message += "; its provider ID, " + scheme(n) + "://, is not of the provider of the other Nodes"
			f.Next = "kubectl label node " + n.Name + " " + corev1.LabelTopologyZone + "=ZONE"
		case v.leads():
			f.Next = "kubectl taint node " + n.Name + " " + v1alpha1.UninitializedTaint + "=true:NoSchedule"
		default: // no controller would remove the taint
			f.Next = "once a cloud-controller-manager is the leader: ccmadm doctor"
		}
		list = append(list, f)
	}
	return list
}

// scheme is what stands before the :// of a Node's provider ID.
func scheme(n *corev1.Node) string {
	name, _, _ := strings.Cut(n.Spec.ProviderID, "://")
	return name
}

// machineTwice finds two Nodes of one machine, one of which does not report. Clones of one image have the same IDs, too: two
// that were alive at the same time are two machines.
func machineTwice(s *Snapshot) []finding.Finding {
	var list []finding.Finding
	alive := map[string]*corev1.Node{}
	key := func(n *corev1.Node) string { return n.Status.NodeInfo.MachineID + "/" + n.Status.NodeInfo.SystemUUID }
	for i := range s.Nodes {
		if n := &s.Nodes[i]; len(key(n)) > 10 && s.readySince(n) >= 0 {
			alive[key(n)] = n
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		_, c := nodeutil.GetNodeCondition(&n.Status, corev1.NodeReady)
		other, found := alive[key(n)]
		if !found || other.Name == n.Name || c == nil || c.Status != corev1.ConditionUnknown || s.spokeAfter(n, c, other) {
			continue
		}
		f := finding.MachineTwice.New("Node/"+n.Name,
			"its kubelet posts no status, and Node "+other.Name+" has the same machine ID and system UUID, and is Ready")
		f.Next = "unless it is another machine, of the same image: kubectl delete node " + n.Name
		list = append(list, f)
	}
	return list
}

// spokeAfter reports whether a kubelet that does not report now was heard after the other had come, by what it said last: a
// condition has the time of its last word also when others have set it to Unknown.
func (s *Snapshot) spokeAfter(silent *corev1.Node, ready *corev1.NodeCondition, other *corev1.Node) bool {
	last := ready.LastHeartbeatTime.Time
	for i := range s.Heartbeats {
		if l := &s.Heartbeats[i]; l.Name == silent.Name && l.Spec.RenewTime != nil && l.Spec.RenewTime.After(last) {
			last = l.Spec.RenewTime.Time
		}
	}
	return last.After(other.CreationTimestamp.Add(clocksApart))
}

// skew compares kubelets with the API server.
func skew(v *view) []finding.Finding {
	server, err := version.ParseGeneric(v.Version)
	if err != nil {
		return nil
	}
	var list []finding.Finding
	for i := range v.Nodes {
		n := &v.Nodes[i]
		kubelet, err := version.ParseGeneric(n.Status.NodeInfo.KubeletVersion)
		if err != nil || nodes.IsVirtual(n) || kubelet.Minor() <= server.Minor() && kubelet.Minor()+3 >= server.Minor() {
			continue
		}
		f := finding.VersionSkew.New(
			"Node/"+n.Name,
			"its kubelet has version "+n.Status.NodeInfo.KubeletVersion+", the API server "+v.Version,
		)
		f.Next = "kubectl get nodes"
		list = append(list, f)
	}
	return list
}

// servingCertificates finds requests without an answer.
func servingCertificates(s *Snapshot) []finding.Finding {
	var list []finding.Finding
	for _, r := range s.Requests {
		if s.since(r.CreationTimestamp.Time) < 10*time.Minute {
			continue
		}
		node := strings.TrimPrefix(r.Spec.Username, v1alpha1.NodeUserPrefix)
		f := finding.ServingCertificate.New(
			"Node/"+node,
			"its kubelet has waited for a serving certificate for more than ten minutes",
		)
		f.Next = "kubectl get csr; once you know the sender: kubectl certificate approve " + r.Name
		list = append(list, f)
	}
	return list
}

// minorOf is 37 of v1.37.2; 0 where the version is not known.
func minorOf(text string) int {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return 0
	}
	return int(v.Minor())
}

// oldRuntimes finds Nodes whose container runtime a later kubelet does not start with.
func oldRuntimes(s *Snapshot) []finding.Finding {
	var list []finding.Finding
	for i := range s.Nodes {
		info := &s.Nodes[i].Status.NodeInfo
		if nodes.RuntimeIsOld(info.ContainerRuntimeVersion) {
			list = append(list, finding.RuntimeEnds.Ahead(minorOf(info.KubeletVersion), "Node/"+s.Nodes[i].Name,
				info.ContainerRuntimeVersion+" does not report its cgroup driver"))
		}
	}
	return list
}

// oldRuntimeHere is oldRuntimes for the machine itself, which needs no cluster.
func oldRuntimeHere(s *Snapshot) []finding.Finding {
	if s.Host == nil || s.Host.Runtime == nil || !nodes.RuntimeIsOld("containerd://"+s.Host.Runtime.Version) {
		return nil
	}
	f := finding.RuntimeEnds.Ahead(minorOf(s.Host.Version), s.Host.node(),
		"containerd://"+s.Host.Runtime.Version+" does not report its cgroup driver")
	f.Next = "containerd --version"
	return []finding.Finding{f}
}

// endingProxyMode is about ipvs alone: iptables is what kubeadm chooses, and works on.
func endingProxyMode(s *Snapshot) []finding.Finding {
	if s.ProxyMode != "ipvs" {
		return nil
	}
	return []finding.Finding{
		finding.ProxyModeEnds.Ahead(minorOf(s.Version), "ConfigMap/kube-system/kube-proxy", "kube-proxy is in mode ipvs"),
	}
}

func endingExternalIPs(s *Snapshot) []finding.Finding {
	var list []finding.Finding
	for _, service := range s.ExternalIPs {
		list = append(list, finding.ExternalIPs.Ahead(minorOf(s.Version), service, "spec.externalIPs is set"))
	}
	return list
}

// inCluster is what package components judges by. The manager that initializes Nodes has detectors of its own, and what is wrong with a
// Node is said of the Node.
func (v *view) inCluster() components.Cluster {
	faulty := map[string]bool{}
	for _, s := range v.report.Nodes {
		faulty["Node/"+s.Node] = s.State != nodes.Ready && s.Cause != nil
	}
	for _, f := range slices.Concat(routes(v), shutdown(v.Snapshot)) {
		faulty[f.Object] = true
	}
	config := readClusterConfiguration(v.Kubeadm)
	cluster := components.Cluster{
		Now: v.Taken, Nodes: v.Nodes, Leases: v.Leases, Events: v.Events,
		Kubeadm: v.Kubeadm != "", DNSAddress: v.ClusterDNS, ServicesSeen: v.notSeen(partServices) == nil, ExternalEtcd: config.Etcd.External != nil,
		APIVersion: config.APIVersion, EtcdDataDir: config.Etcd.Local.DataDir, PKI: config.pki(),
		ServiceSubnet: config.Networking.ServiceSubnet, PodSubnet: config.Networking.PodSubnet,
		Undone: v.Undone, NotServed: v.notServed(), Networks: v.facts.Networks, Listed: v.listed,
		// How far a Node has come into external mode says nothing of what runs there: kube-proxy tolerates every taint.
		Skip: func(node string) bool {
			n := v.byName[node]
			return n == nil || !nodestatus.IsReady(n) || nodes.IsVirtual(n)
		},
		Faulty: func(node string) bool { return faulty["Node/"+node] },
	}
	if m := v.main(); m != nil {
		cluster.Manager = m.object
	}
	return cluster
}

// listed tells whether pods of CNI plugins in a namespace outside of kube-system were listed, where some were lacking.
func (s *Snapshot) listed(namespace string) bool {
	others := map[string]bool{}
	for i := range s.Networks {
		if n := s.Networks[i].Namespace; n != v1alpha1.Namespace {
			others[n] = true
		}
	}
	return s.notSeen(podsIn(namespace)) == nil && len(others) <= mostNetworks // of more it is not kept which were asked for
}

// judged compares what is in kube-system with a part of what belongs there.
func judged(judge func(*components.Seen, components.Cluster) []finding.Finding) func(*view) []finding.Finding {
	return func(v *view) []finding.Finding { return judge(v.Components, v.inCluster()) }
}

// disagreements compares what several places state, of a cluster that kubeadm made.
func disagreements(s *Snapshot) []finding.Finding {
	if s.Kubeadm == "" || s.Components == nil {
		return nil
	}
	config := readClusterConfiguration(s.Kubeadm)
	settings := s.Settings // without what nothing reads, where it is known that nothing does
	if !s.Components.Has(components.Proxy) && s.notSeen(partDaemonSets) == nil {
		settings.ProxyCIDR, settings.ProxyServer = "", ""
	}
	if !s.Components.Has(components.DNS) && s.notSeen(partDeployments) == nil {
		settings.Zones = ""
	}
	c := agreement.Cluster{
		Settings: &settings, Endpoint: config.Endpoint, PodSubnet: config.Networking.PodSubnet, ServiceSubnet: config.Networking.ServiceSubnet,
		Domain: config.Networking.DNSDomain, DNS: s.ClusterDNS, Resolvers: s.Components.Resolvers, Addresses: map[string]string{},
		Nodes: s.Nodes, Static: s.Components.Static,
		PKI:         config.pki(),
		CIDRsUnseen: s.notSeen(partServiceNets) != nil, ServicesUnseen: s.notSeen(partServices) != nil,
	}
	for _, service := range s.Components.Services {
		c.Addresses[service.Object] = service.Address
	}
	return agreement.Judge(c)
}

// deviations compares what runs in kube-system with what belongs there.
func deviations(v *view) []finding.Finding {
	list := components.Judge(v.Components, v.inCluster())
	if v.NoPools && v.Components.Has(components.NodeAgent) {
		f := finding.KindMissing.New("CustomResourceDefinition/addresspools."+v1alpha1.GroupName,
			"the API server does not know AddressPools, and node agents run: no load balancer gets an address, and none is announced")
		f.Next = "ccmadm apply --force, then: kubectl apply -f FILE with the AddressPools, from a backup"
		list = append(list, f)
	}
	return list
}

// unusable finds configurations that what reads them cannot use. A cluster that kubeadm did not make has none of them.
func unusable(s *Snapshot) []finding.Finding {
	byKubeadm := slices.DeleteFunc(slices.Clone(s.Configurations), func(c Configuration) bool { return c.Workload != "" })
	if s.Kubeadm == "" && len(byKubeadm) > 1 {
		return nil
	}
	var list []finding.Finding
	for _, c := range s.Configurations {
		if c.Workload != "" && !s.Components.Has(c.Workload) {
			continue
		}
		f := finding.ConfigurationMissing.New(c.Object, c.Problem)
		_, name, _ := strings.Cut(strings.TrimPrefix(c.Object, "ConfigMap/"), "/")
		f.Next = map[string]string{
			"cluster-info":   "on a control plane, which also makes a bootstrap token of 24 h: kubeadm init phase bootstrap-token --skip-token-print",
			"kubeadm-config": "on a control plane, with the configuration of today in FILE: kubeadm init phase upload-config kubeadm --config FILE",
			"kubelet-config": "on a control plane, with the configuration of today in FILE: kubeadm init phase upload-config kubelet --config FILE",
			"kube-proxy":     "kubeadm init phase addon kube-proxy --print-manifest --config FILE shows the ConfigMap as kubeadm makes it",
			"coredns":        "kubeadm init phase addon coredns --print-manifest --config FILE shows the ConfigMap as kubeadm makes it",
		}[name]
		list = append(list, f)
	}
	return list
}

// clusterConfiguration is what of kubeadm's components are compared with, and what remedies need of it.
type clusterConfiguration struct {
	APIVersion      string `json:"apiVersion"`
	CertificatesDir string `json:"certificatesDir"`
	Endpoint        string `json:"controlPlaneEndpoint"`
	Etcd            struct {
		Local struct {
			DataDir string `json:"dataDir"`
		} `json:"local"`
		External *externalEtcd `json:"external"`
	} `json:"etcd"`
	Networking struct {
		ServiceSubnet string `json:"serviceSubnet"`
		PodSubnet     string `json:"podSubnet"`
		DNSDomain     string `json:"dnsDomain"`
	} `json:"networking"`
}

// pki is the directory of certificates.
func (c *clusterConfiguration) pki() string { return cmp.Or(c.CertificatesDir, machine.PKIDir) }

// externalEtcd is one that kubeadm did not make, with the files by which API servers reach it.
type externalEtcd struct {
	Endpoints []string `json:"endpoints"`
	CAFile    string   `json:"caFile"`
	CertFile  string   `json:"certFile"`
	KeyFile   string   `json:"keyFile"`
}

// readClusterConfiguration is empty where the text cannot be read: nothing is compared then. A network that extraArgs set again is
// not that of networking.
func readClusterConfiguration(text string) clusterConfiguration {
	var config clusterConfiguration
	if yaml.Unmarshal([]byte(text), &config) != nil {
		return clusterConfiguration{}
	}
	if strings.Contains(text, "service-cluster-ip-range") {
		config.Networking.ServiceSubnet = ""
	}
	if strings.Contains(text, "cluster-cidr") || strings.Contains(text, "allocate-node-cidrs") {
		config.Networking.PodSubnet = ""
	}
	return config
}
