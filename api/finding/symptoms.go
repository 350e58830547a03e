package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Symptom is an observation that users search for before there is a finding.
type Symptom struct {
	// Where it is seen.
	Where string
	// Text is the verbatim text; "..." stands for the parts that differ. With Prose it is a description.
	Text string
	// IDs are the possible causes, the most frequent first.
	IDs   []ID
	Prose bool
}

// described is a symptom without a text of its own.
func described(where, text string, ids ...ID) Symptom {
	return Symptom{Where: where, Text: text, IDs: ids, Prose: true}
}

// heading has verbatim texts in code font.
func (s *Symptom) heading() string {
	if s.Prose {
		return s.Text
	}
	return "`" + s.Text + "`"
}

// The places where symptoms show, in the order in which people look.
const (
	inNodes    = "kubectl get nodes, kubectl describe node"
	inPods     = "kubectl get pods, kubectl describe pod"
	inServices = "kubectl get services"
	inLog      = "The cloud-controller-manager's log"
	inKubelet  = "The kubelet's log, and kubeadm"
)

// Symptoms lists them by the place. Texts are upstream's own, of Kubernetes 1.36 and cloud-provider v0.36.
func Symptoms() []Symptom {
	return slices.Concat(symptomsOfNodes(), symptomsOfPods(), symptomsOfServices(), symptomsInLogs(), symptomsOfKubelets())
}

func symptomsOfNodes() []Symptom {
	return []Symptom{
		described(inNodes, "The uninitialized taint stays: `Taints: node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule`", NoPod, PodPending, CrashLoop, NoLeader, ManagerFails, NotServed),
		described(inNodes, "`ProviderID` is empty, and there is no taint", "A1", NeverTainted),
		{inNodes, "INTERNAL-IP <none>", []ID{NoInternalIP, "A13", "D8", NodeIPUnknown}, false},
		described(inNodes, "`INTERNAL-IP` is the same for several Nodes, such as `10.0.2.15`", AddressTwice),
		{inNodes, "NotReady", []ID{NotReady, KubeletSilent}, false},
		described(inNodes, "A Node disappears a few seconds after it registered, and does not come back", KubeletWithoutNode, WouldBeDeleted),
		{inNodes, "Event DeletingNode: Deleting node ... because it does not exist in the cloud provider", []ID{KubeletWithoutNode, WouldBeDeleted}, false},
		described(inNodes, "`Taints: node.cloudprovider.kubernetes.io/shutdown:NoSchedule`, and the Node is `Ready`", ShutdownStays),
		{inNodes, "NetworkUnavailable True NoRouteCreated RouteController failed to create a route", []ID{RouteFailed, "F5"}, false},
		described(inNodes, "`NetworkUnavailable` is `True` with another reason, such as `CalicoIsDown`", NetworkUnavailable),
		{inNodes, "CIDRNotAvailable", []ID{"F5"}, false},
		described(inNodes, "Label `topology.kubernetes.io/zone` is missing", NoZone, NeverTainted),
		described(inNodes, "A Node of the machine's old name stays `NotReady`", MachineTwice),
	}
}

func symptomsOfPods() []Symptom {
	return []Symptom{
		{inPods, "untolerated taint {node.cloudprovider.kubernetes.io/uninitialized: true}", []ID{"B1"}, false},
		{inPods, "untolerated taint {node.kubernetes.io/not-ready: }", []ID{"B2"}, false},
		{inPods, "untolerated taint {node-role.kubernetes.io/control-plane: }", []ID{"B3"}, false},
		{inPods, "untolerated taint {node.kubernetes.io/network-unavailable: }", []ID{RouteFailed, "F2"}, false},
		described(inPods, "`didn't match Pod's node affinity/selector`, or a DaemonSet with `DESIRED 0`", "B4", ComponentMissing),
		described(inPods, "A pod of kube-system, or of the CNI plugin, is in `CrashLoopBackOff`: coredns, kube-proxy, kube-flannel-ds", ComponentUnready),
		described(inPods, "A static pod of the control plane is gone: kube-scheduler, etcd", ComponentMissing),
		{inPods, "didn't have free ports for the requested pod ports", []ID{"B5"}, false},
		{inPods, "violates PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true)", []ID{"B6"}, false},
		{inPods, "Error creating: pods ... is forbidden: exceeded quota: ...", []ID{WriteRefused}, false},
		{inPods, "Error creating: pods ... is forbidden: no PriorityClass with name ... was found", []ID{WriteRefused}, false},
		{inPods, "Internal error occurred: failed calling webhook ...", []ID{WebhookBlocks}, false},
		{inPods, "ErrImagePull, ImagePullBackOff", []ID{ImagePull}, false},
		{inPods, "MountVolume.SetUp failed for volume ... : secret \"cloud-config\" not found", []ID{SecretMissing}, false},
		{inPods, "MountVolume.SetUp failed for volume ... : hostPath type check failed: ... is not a file", []ID{FileMissing}, false},
		{inPods, "CreateContainerConfigError: secret ... not found", []ID{SecretMissing}, false},
		{inPods, "Liveness probe failed: Get \"https://...:10258/healthz\": connection refused", []ID{"B12"}, false},
		{inPods, "cni plugin not initialized", []ID{NotReady, "C1"}, false},
		{inPods, "coredns Pending", []ID{NoPod, PodPending, "C3"}, false},
	}
}

func symptomsOfServices() []Symptom {
	return []Symptom{
		{inServices, "EXTERNAL-IP <pending>", []ID{BalancerPending, NoLeader, LeaderSilent, "D9", NoPoolServes, PoolExhausted}, false},
		{inServices, "SyncLoadBalancerFailed: Error syncing load balancer: ...", []ID{BalancerPending}, false},
		{inServices, "could not find any suitable subnets for creating the ELB", []ID{BalancerPending}, false},
		{inServices, "neither load-balancer.hetzner.cloud/location nor load-balancer.hetzner.cloud/network-zone set", []ID{BalancerPending}, false},
		{inServices, "Failed to find floating-network-id for Service ...", []ID{BalancerPending}, false},
		{inServices, "UnAvailableLoadBalancer: There are no available nodes for LoadBalancer", []ID{NoBackend}, false},
		described(inServices, "`kubectl delete service` hangs; the namespace is `Terminating`", BalancerStuck),
		described(inServices, "The address is assigned, and does not respond", NotAnnounced, NoEligibleNode, AddressConflict, AgentSilent),
	}
}

func symptomsInLogs() []Symptom {
	return []Symptom{
		{
			inLog, "attempting to acquire leader lease kube-system/cloud-controller-manager...",
			[]ID{ForeignLeader, LeaseAbandoned},
			false,
		},
		{inLog, "error retrieving resource lock kube-system/cloud-controller-manager: ... is forbidden", []ID{"D6"}, false},
		{inLog, "etcdserver: mvcc: database space exceeded", []ID{EtcdFull}, false},
		{inLog, "leaderelection lost", []ID{LeaseLost}, false},
		{inLog, "configmaps \"extension-apiserver-authentication\" is forbidden", []ID{"D5"}, false},
		{inLog, "failed to list *v1.Node: nodes is forbidden", []ID{"D13"}, false},
		{inLog, "nodes/status ... is forbidden", []ID{"D8"}, false},
		{inLog, "cannot patch resource \"services/status\"", []ID{"D9"}, false},
		{inLog, "events is forbidden", []ID{"D10"}, false},
		{inLog, "cannot create resource \"serviceaccounts/token\"", []ID{"D7"}, false},
		{inLog, "\"Error retrieving lease lock\" err=\"Unauthorized\"", []ID{Unauthorized}, false},
		{inLog, "Unauthorized; You must be logged in to the server", []ID{Unauthorized}, false},
		{inLog, "failed to get instance metadata for node w1: 403, requeuing", []ID{CloudRefuses, ManagerFails}, false},
		{inLog, "failed to get instance metadata for node w1: instance not found", []ID{ManagerFails, NotRecognized}, false},
		{inLog, "provided node ip for node \"w1\" is not valid", []ID{NodeIPUnknown}, false},
		{inLog, "failed to listen on 0.0.0.0:10258: listen tcp 0.0.0.0:10258: bind: address already in use", []ID{"B10"}, false},
		{inLog, "--webhook-secure-port cannot be the same value as --secure-port", []ID{"B11"}, false},
		{inLog, "unknown flag: --port", []ID{"B13"}, false},
		{inLog, "[\"cloud-node\" is not in the list of known controllers ...]", []ID{"B14"}, false},
		{inLog, "--cloud-provider cannot be empty", []ID{"B15"}, false},
		{inLog, "unknown cloud provider \"x\"", []ID{"B15"}, false},
		{inLog, "resourceLock value must be \"leases\"", []ID{"B16"}, false},
		{inLog, "no ClusterID found.  A ClusterID is required", []ID{"B17"}, false},
		{inLog, "AWS cloud failed to find ClusterID", []ID{"B17"}, false},
		{inLog, "Couldn't open cloud provider configuration /etc/kubernetes/cloud.conf", []ID{"D2"}, false},
		{inLog, "invalid CIDR[0]: <nil> (invalid CIDR address: )", []ID{"F1"}, false},
		{inLog, "Get \"https://10.96.0.1:443/api/...\": dial tcp 10.96.0.1:443: i/o timeout", []ID{"C2"}, false},
		{inLog, "dial tcp: lookup api.example.org on 10.96.0.10:53: i/o timeout", []ID{"C3", CloudNotFound}, false},
		{inLog, "Get \"http://169.254.169.254/latest/meta-data\": i/o timeout", []ID{MetadataUnreached}, false},
		{inLog, "x509: certificate signed by unknown authority", []ID{CloudNotTrusted, Unauthorized}, false},
		{inLog, "Error getting instance metadata for node addresses: ... i/o timeout", []ID{CloudUnanswered, CloudRefuses, CloudNotFound}, false},
		{inLog, "cloud provider does not support instances", []ID{NoNodeController}, false},
		{inLog, "there is no inventory: Unreadable: open ...: permission denied", []ID{NoInventory}, false},
		{inLog, "Inventory rejected, the last good one stays", []ID{ReadingRejected}, false},
	}
}

func symptomsOfKubelets() []Symptom {
	return []Symptom{
		{inKubelet, "unknown flag: --cloud-config", []ID{"A5"}, false},
		{inKubelet, "cloud provider \"aws\" was specified, but built-in cloud providers are disabled", []ID{"A4", "A7"}, false},
		{inKubelet, "kube-apiserver: Error: unknown flag: --cloud-provider", []ID{"A6"}, false},
		{inKubelet, "static pods may not reference serviceaccounts", []ID{"A15"}, false},
		described(inKubelet, "`node \"w1\" not found`, again and again", KubeletWithoutNode),
		{inKubelet, "failed to set bridge addr: \"cni0\" already has an IP address different from 10.244.1.1/24", []ID{SandboxFails}, false},
		{inKubelet, "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox", []ID{SandboxFails}, false},
		{inKubelet, "remote error: tls: internal error; no serving certificate available for the kubelet", []ID{ServingCertificate, NoInternalIP}, false},
		{inKubelet, "no preferred addresses found; known addresses: [{Hostname w1}]", []ID{"A13", NoInternalIP}, false},
		{inKubelet, "a Node with name \"w1\" and status \"Ready\" already exists in the cluster", []ID{CheckNodeName}, false},
	}
}

// Troubleshooting is the page of documentation that leads from what is seen to what to do.
func Troubleshooting(head string) string {
	var b strings.Builder
	b.WriteString(head)
	where := ""
	for _, s := range Symptoms() {
		if s.Where != where {
			where = s.Where
			fmt.Fprintf(&b, "\n## %s\n", where)
		}
		fmt.Fprintf(&b, "\n### %s\n\n", s.heading())
		for _, id := range s.IDs {
			k := id.Kind()
			fmt.Fprintf(&b, "* **%s: %s.** %s Do: %s.\n", id, strings.TrimSuffix(k.Title, "."), k.Why, strings.TrimSuffix(k.Do, "."))
		}
	}
	return b.String()
}
