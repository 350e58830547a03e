package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Symptom is what somebody sees, and searches for, before there is a finding.
type Symptom struct {
	// Where it is seen.
	Where string
	// Text is what it says; "..." stands for what differs.
	Text string
	// IDs are what it may be, the most frequent first.
	IDs []ID
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
		{inNodes, "Taints: node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule, and it stays", []ID{NoPod, PodPending, CrashLoop, NoLeader, ManagerFails, NotServed}},
		{inNodes, "ProviderID is empty, and there is no taint", []ID{"A1", NeverTainted}},
		{inNodes, "INTERNAL-IP <none>", []ID{NoInternalIP, "A13", "D8", NodeIPUnknown}},
		{inNodes, "NotReady", []ID{NotReady, KubeletSilent}},
		{inNodes, "a Node disappears a few seconds after it came, and does not come back", []ID{KubeletWithoutNode, WouldBeDeleted}},
		{inNodes, "Event DeletingNode: Deleting node ... because it does not exist in the cloud provider", []ID{KubeletWithoutNode, WouldBeDeleted}},
		{inNodes, "Taints: node.cloudprovider.kubernetes.io/shutdown:NoSchedule, and the Node is Ready", []ID{ShutdownStays}},
		{inNodes, "NetworkUnavailable True NoRouteCreated RouteController failed to create a route", []ID{RouteFailed, "F5"}},
		{inNodes, "no label topology.kubernetes.io/zone", []ID{NoZone, NeverTainted}},
		{inNodes, "a Node of the machine's old name stays NotReady", []ID{MachineTwice}},
	}
}

func symptomsOfPods() []Symptom {
	return []Symptom{
		{inPods, "untolerated taint {node.cloudprovider.kubernetes.io/uninitialized: true}", []ID{"B1"}},
		{inPods, "untolerated taint {node.kubernetes.io/not-ready: }", []ID{"B2"}},
		{inPods, "untolerated taint {node-role.kubernetes.io/control-plane: }", []ID{"B3"}},
		{inPods, "untolerated taint {node.kubernetes.io/network-unavailable: }", []ID{RouteFailed, "F2"}},
		{inPods, "didn't match Pod's node affinity/selector; a DaemonSet with DESIRED 0", []ID{"B4"}},
		{inPods, "didn't have free ports for the requested pod ports", []ID{"B5"}},
		{inPods, "violates PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true)", []ID{"B6"}},
		{inPods, "Internal error occurred: failed calling webhook ...", []ID{WebhookBlocks}},
		{inPods, "ErrImagePull, ImagePullBackOff", []ID{ImagePull}},
		{inPods, "MountVolume.SetUp failed for volume ... : secret \"cloud-config\" not found", []ID{SecretMissing}},
		{inPods, "MountVolume.SetUp failed for volume ... : hostPath type check failed: ... is not a file", []ID{FileMissing}},
		{inPods, "CreateContainerConfigError: secret ... not found", []ID{SecretMissing}},
		{inPods, "Liveness probe failed: Get \"https://...:10258/healthz\": connection refused", []ID{"B12"}},
		{inPods, "cni plugin not initialized", []ID{NotReady, "C1"}},
		{inPods, "coredns Pending", []ID{NoPod, PodPending, "C3"}},
	}
}

func symptomsOfServices() []Symptom {
	return []Symptom{
		{inServices, "EXTERNAL-IP <pending>", []ID{BalancerPending, NoLeader, LeaderSilent, "D9", NoPoolServes, PoolExhausted}},
		{inServices, "UnAvailableLoadBalancer: There are no available nodes for LoadBalancer", []ID{NoBackend}},
		{inServices, "kubectl delete service hangs; the namespace is Terminating", []ID{BalancerStuck}},
		{inServices, "the address is there, and nobody answers", []ID{NotAnnounced, NoEligibleNode, AddressConflict}},
	}
}

func symptomsInLogs() []Symptom {
	return []Symptom{
		{
			inLog, "attempting to acquire leader lease kube-system/cloud-controller-manager...",
			[]ID{ForeignLeader, LeaseAbandoned},
		},
		{inLog, "error retrieving resource lock kube-system/cloud-controller-manager: ... is forbidden", []ID{"D6"}},
		{inLog, "leaderelection lost", []ID{LeaseLost}},
		{inLog, "configmaps \"extension-apiserver-authentication\" is forbidden", []ID{"D5"}},
		{inLog, "failed to list *v1.Node: nodes is forbidden", []ID{"D13"}},
		{inLog, "nodes/status ... is forbidden", []ID{"D8"}},
		{inLog, "cannot patch resource \"services/status\"", []ID{"D9"}},
		{inLog, "events is forbidden", []ID{"D10"}},
		{inLog, "cannot create resource \"serviceaccounts/token\"", []ID{"D7"}},
		{inLog, "Unauthorized; You must be logged in to the server", []ID{Unauthorized}},
		{inLog, "failed to get instance metadata for node w1: 403, requeuing", []ID{CloudRefuses, ManagerFails}},
		{inLog, "failed to get instance metadata for node w1: instance not found", []ID{ManagerFails, NotRecognized}},
		{inLog, "provided node ip for node \"w1\" is not valid", []ID{NodeIPUnknown}},
		{inLog, "failed to listen on 0.0.0.0:10258: listen tcp 0.0.0.0:10258: bind: address already in use", []ID{"B10"}},
		{inLog, "--webhook-secure-port cannot be the same value as --secure-port", []ID{"B11"}},
		{inLog, "unknown flag: --port", []ID{"B13"}},
		{inLog, "[\"cloud-node\" is not in the list of known controllers ...]", []ID{"B14"}},
		{inLog, "--cloud-provider cannot be empty", []ID{"B15"}},
		{inLog, "unknown cloud provider \"x\"", []ID{"B15"}},
		{inLog, "resourceLock value must be \"leases\"", []ID{"B16"}},
		{inLog, "no ClusterID found.  A ClusterID is required", []ID{"B17"}},
		{inLog, "AWS cloud failed to find ClusterID", []ID{"B17"}},
		{inLog, "Couldn't open cloud provider configuration /etc/kubernetes/cloud.conf", []ID{"D2"}},
		{inLog, "invalid CIDR[0]: <nil> (invalid CIDR address: )", []ID{"F1"}},
		{inLog, "Get \"https://10.96.0.1:443/api/...\": dial tcp 10.96.0.1:443: i/o timeout", []ID{"C2"}},
		{inLog, "dial tcp: lookup api.example.org on 10.96.0.10:53: i/o timeout", []ID{"C3", CloudNotFound}},
		{inLog, "Get \"http://169.254.169.254/latest/meta-data\": i/o timeout", []ID{MetadataUnreached}},
		{inLog, "x509: certificate signed by unknown authority", []ID{CloudNotTrusted, Unauthorized}},
		{inLog, "cloud provider does not support instances", []ID{NoNodeController}},
		{inLog, "there is no inventory: Unreadable: open ...: permission denied", []ID{NoInventory}},
		{inLog, "Inventory rejected, the last good one stays", []ID{ReadingRejected}},
	}
}

func symptomsOfKubelets() []Symptom {
	return []Symptom{
		{inKubelet, "unknown flag: --cloud-config", []ID{"A5"}},
		{inKubelet, "cloud provider \"aws\" was specified, but built-in cloud providers are disabled", []ID{"A4", "A7"}},
		{inKubelet, "kube-apiserver: Error: unknown flag: --cloud-provider", []ID{"A6"}},
		{inKubelet, "static pods may not reference serviceaccounts", []ID{"A15"}},
		{inKubelet, "node \"w1\" not found, again and again", []ID{KubeletWithoutNode}},
		{inKubelet, "remote error: tls: internal error; no serving certificate available for the kubelet", []ID{ServingCertificate, NoInternalIP}},
		{inKubelet, "no preferred addresses found; known addresses: [{Hostname w1}]", []ID{"A13", NoInternalIP}},
		{inKubelet, "a Node with name \"w1\" and status \"Ready\" already exists in the cluster", []ID{CheckNodeName}},
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
		fmt.Fprintf(&b, "\n### `%s`\n\n", s.Text)
		for _, id := range s.IDs {
			k := id.Kind()
			fmt.Fprintf(&b, "* **%s: %s.** %s Do: %s.\n", id, strings.TrimSuffix(k.Title, "."), k.Why, strings.TrimSuffix(k.Do, "."))
		}
	}
	return b.String()
}
