package finding

// What the parts of a cluster have to have in common, and what its control plane has to do (packages doctor/callouts, doctor/agreement and
// doctor/components).
const (
	CalloutFails     ID = "Q14"
	SettingsDisagree ID = "Q15"
	APIOff           ID = "Q16"
	ControllerOff    ID = "Q17"
	EtcdMemberDown   ID = "Q18"
	NotSigned        ID = "I3"
	ClientRequest    ID = "I4"
	LeaseShared      ID = "H6"
	ProviderIDTwice  ID = "N7"

	NetworkUnavailable ID = "Q19"
	EtcdSlow           ID = "Q20"
	AddressTwice       ID = "N8"
)

// common is about a cluster as a whole.
func common() []Kind {
	return []Kind{
		{
			ID: CalloutFails, Reason: "CalloutFails", Title: "API server gets no answer from a webhook", Severity: SeverityError,
			Why: "The API server calls webhooks while a client waits. One that accepts the connection and does not answer holds up each request " +
				"that it guards, also where it fails open; one that converts objects keeps them from being read.",
			Do:    "correct the pods of the webhook, the ports of its Service, or its certificate (caBundle)",
			Links: []string{"https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/"},
		},
		{
			ID: SettingsDisagree, Reason: "SettingsDisagree", Title: "Components have different values of one setting", Severity: SeverityWarning,
			Why: "kubeadm writes networks, the domain, the address of the API server and versions in several places, and a change by hand " +
				"reached some of them only. What each component does with its value does not fit together.",
			Do:    "give all places the value that most of them, or kubeadm's ClusterConfiguration, have",
			Links: []string{"https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-reconfigure/"},
		},
		{
			ID: APIOff, Reason: "APIOff", Title: "API that the cluster needs is switched off", Severity: SeverityError,
			Why:   "kube-apiserver has --runtime-config with VERSION=false, and the components that use the API do not work.",
			Do:    "remove the entry from --runtime-config, in the static pod and in kubeadm's ClusterConfiguration",
			Links: []string{"https://kubernetes.io/docs/tasks/administer-cluster/enable-disable-api/"},
		},
		{
			ID: ControllerOff, Reason: "ControllerOff", Title: "Controller that the cluster needs is switched off", Severity: SeverityError,
			Why:   "kube-controller-manager has --controllers without it, and nothing else does its work.",
			Do:    "remove the entry from --controllers, in the static pod and in kubeadm's ClusterConfiguration",
			Links: []string{"https://kubernetes.io/docs/reference/command-line-tools-reference/kube-controller-manager/"},
		},
		{
			ID: EtcdMemberDown, Reason: "EtcdMemberDown", Title: "Member of etcd is not reached by another one", Severity: SeverityError,
			Why: "It is in the list of members and counts for the quorum: one failure less can be survived. That of a control plane which was " +
				"removed without `kubeadm reset` stays in the list.",
			Do:    "start the machine, or remove the member if the machine is gone for good",
			Links: []string{"https://etcd.io/docs/v3.6/op-guide/runtime-configuration/"},
		},
		{
			ID: AddressTwice, Reason: "AddressTwice", Title: "Several Nodes have one InternalIP", Severity: SeverityError,
			Why: "API servers reach a kubelet by the first InternalIP of its Node, for logs, exec and metrics, and CNI plugins send packets of pods there: " +
				"they all arrive at one machine. A kubelet without --node-ip takes the address of the default route.",
			Do: "give the kubelet of each machine --node-ip=ADDRESS, the address by which other machines reach it, and restart it",
		},
		{
			ID: NetworkUnavailable, Reason: "NetworkUnavailable", Title: "Node has no network, as its CNI plugin reports", Severity: SeverityError,
			Why: "The plugin's pod on the Node has set the condition NetworkUnavailable, and the taint that follows keeps other pods away, until the pod " +
				"runs again and takes it back.",
			Do: "correct what keeps the plugin's pod on the Node from being ready",
		},
		{
			ID: EtcdSlow, Reason: "EtcdSlow", Title: "Disk of etcd is too slow", Severity: SeverityWarning,
			Why: "etcd writes each change to its disk before it answers. While that takes seconds, the leader changes, Leases run out, and API servers, " +
				"controllers and kubelets seem to fail.",
			Do:    "give etcd a disk of its own with low latency, and move what writes much to another one",
			Links: []string{"https://etcd.io/docs/v3.6/op-guide/hardware/#disks"},
		},
		{
			ID: NotSigned, Reason: "NotSigned", Title: "Approved certificate request has no certificate", Severity: SeverityError,
			Why: "The signers of Kubernetes are in kube-controller-manager, which signs within seconds. Kubelets whose certificates end without a new " +
				"one lose the API server.",
			Do: "switch the controller csrsigning on, and give kube-controller-manager --cluster-signing-cert-file and --cluster-signing-key-file",
		},
		{
			ID: ClientRequest, Reason: "ClientRequest", Title: "Kubelet's request for its client certificate is not approved", Severity: SeverityWarning,
			Why: "kube-controller-manager approves such requests within seconds, where kubeadm's bindings are there. A machine that joins waits for the " +
				"certificate, and a kubelet whose certificate ends loses the API server.",
			Do: "switch the controller csrapproving on; where requests are approved by hand on purpose, check which machine sent the request, then approve it",
		},
		{
			ID: LeaseShared, Reason: "LeaseShared", Title: "Two cloud-controller-managers compete for one Lease", Severity: SeverityError,
			Why: "The one that holds the Lease works, and the other waits: which of the two, with its settings, changes with each restart.",
			Do:  "remove one of them",
		},
		{
			ID: ProviderIDTwice, Reason: "ProviderIDTwice", Title: "Two Nodes have one provider ID", Severity: SeverityError,
			Why: "A cloud-controller-manager takes both for the same machine: addresses, zone and power state of the one are written to the other, and " +
				"both are deleted when the machine is.",
			Do: "delete the Node whose machine it is not, correct the kubelet's --provider-id if it has one, and restart the kubelet",
		},
	}
}
