package diagnosis

import (
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// deviations compares what runs in kube-system with what belongs there. The manager that initializes Nodes has detectors of
// its own, and what is wrong with a Node is said of the Node.
func deviations(v *view) []finding.Finding {
	states := map[string]nodes.State{}
	for _, s := range v.report.Nodes {
		states[s.Node] = s.State
	}
	config := readClusterConfiguration(v.Kubeadm)
	main := ""
	if m := v.main(); m != nil {
		main = m.object
	}
	list := components.Judge(v.Components, components.Cluster{
		Now: v.Taken, Nodes: v.Nodes, Leases: v.Leases, Events: v.Events,
		Kubeadm: v.Kubeadm != "", ExternalEtcd: config.Etcd.External != nil,
		ServiceSubnet: config.Networking.ServiceSubnet, PodSubnet: config.Networking.PodSubnet,
		Skip:    func(node string) bool { return states[node] != nodes.Ready },
		Exclude: func(workload string) bool { return workload == main },
	})
	if v.NoPools && v.Components.Has(components.NodeAgent) {
		f := finding.KindMissing.New("CustomResourceDefinition/addresspools."+v1alpha1.GroupName,
			"the API server does not know AddressPools, and node agents run: no load balancer gets an address, and none is announced")
		f.Next = "ccmadm apply --force, then: kubectl apply -f FILE with the AddressPools, from a backup"
		list = append(list, f)
	}
	return list
}

// clusterConfiguration is what of kubeadm's components are compared with.
type clusterConfiguration struct {
	Etcd struct {
		External *struct{} `json:"external"`
	} `json:"etcd"`
	Networking struct {
		ServiceSubnet string `json:"serviceSubnet"`
		PodSubnet     string `json:"podSubnet"`
	} `json:"networking"`
}

// readClusterConfiguration is empty where the text cannot be read: nothing is compared then.
func readClusterConfiguration(text string) clusterConfiguration {
	var config clusterConfiguration
	if yaml.Unmarshal([]byte(text), &config) != nil {
		return clusterConfiguration{}
	}
	return config
}
