package finding

// The causes of a node's waiting (package doctor/nodes).
const (
	NodeAbsent         ID = "W1"
	NeverTainted       ID = "W2"
	NoInternalIP       ID = "W3"
	NodeIPUnknown      ID = "W4"
	NotReady           ID = "W5"
	NotVisible         ID = "W6"
	NoLeader           ID = "W7"
	NoNodeController   ID = "W8"
	NotServed          ID = "W9"
	ManagerFails       ID = "W10"
	MissingPermission  ID = "W11"
	Unauthorized       ID = "W12"
	LeaderSilent       ID = "W13"
	KubeletSilent      ID = "W14"
	LeaseUnknown       ID = "W15"
	IdentityEnds       ID = "W16"
	IdentityEnded      ID = "W17"
	KubeletNotExternal ID = "W18"
	NoNodes            ID = "W19"
)

// waiting is about nodes that are not as far as they should be.
func waiting() []Kind {
	return []Kind{
		{
			ID: NodeAbsent, Reason: "NodeAbsent", Title: "Node does not exist", Severity: SeverityError,
			Why: "A machine becomes a Node when its kubelet registers with the API server.",
			Do:  "check the kubelet's log on the machine",
		},
		{
			ID: NeverTainted, Reason: "NeverTainted", Severity: SeverityError,
			Title: "Node has neither the uninitialized taint nor a provider ID",
			Why: "A cloud-controller-manager initializes only Nodes that have the taint, and a kubelet sets it only when it registers " +
				"with --cloud-provider=external.",
			Do:    "correct the kubelet's flags, then set the taint by hand or let the machine join again",
			Links: []string{"kubernetes/kubeadm#1021"},
		},
		{
			ID: NoInternalIP, Reason: "NoInternalIP", Title: "Node has no InternalIP", Severity: SeverityError,
			Why: "Logs, exec and webhooks reach a Node at its InternalIP.",
			Do:  "check the cloud-controller-manager's log for the Node's addresses",
		},
		{
			ID: NodeIPUnknown, Reason: "NodeIPUnknown", Severity: SeverityError,
			Title: "Kubelet's node IP is not an address of the machine",
			Why:   "A cloud-controller-manager does not initialize a Node whose --node-ip the cloud does not list.",
			Do:    "correct or remove --node-ip",
			Links: []string{"kubernetes/kubernetes#125348"},
		},
		{
			ID: NotReady, Reason: "NotReady", Title: "Kubelet reports NotReady", Severity: SeverityError,
			Why: "The scheduler places no pods on the Node.",
			Do:  "correct the cause in the Node's Ready condition: usually a CNI plugin is missing",
		},
		{
			ID: NotVisible, Reason: "NotVisible", Title: "The cause is not visible from here", Severity: SeverityWarning,
			Why: "Your credentials do not allow reading the cloud-controller-manager's pods, or the request failed.",
			Do:  "run the command on a control plane",
		},
		{
			ID: NoLeader, Reason: "NoLeader", Title: "cloud-controller-manager has no leader", Severity: SeverityError,
			Why: "Its controllers start when it holds the Lease.",
			Do:  "check its log",
		},
		{
			ID: NoNodeController, Reason: "NoNodeController", Title: "Node controller is not running", Severity: SeverityError,
			Why: "The cloud did not answer when the cloud-controller-manager started, or its provider has no instances, and it does " +
				"not retry.",
			Do: "once the cloud answers, restart the cloud-controller-manager",
		},
		{
			ID: NotServed, Reason: "NotServed", Title: "cloud-controller-manager has not processed the Node", Severity: SeverityError,
			Why: "It is the leader, and its log has no error about the Node.",
			Do:  "read the whole log",
		},
	}
}

// waitingForCluster is about what nodes wait for together.
func waitingForCluster() []Kind {
	return []Kind{
		{
			ID: ManagerFails, Reason: "ManagerFails", Severity: SeverityError,
			Title: "cloud-controller-manager fails to initialize the Node",
			Why:   "Its log has an error about the Node.",
			Do:    "correct the cause of the error",
		},
		{
			ID: MissingPermission, Reason: "MissingPermission", Severity: SeverityError,
			Title: "RBAC permission of the cloud-controller-manager is missing",
			Why:   "The API server denies a request that the cloud-controller-manager needs.",
			Do: "grant the permission to the cloud-controller-manager's user; in a cluster that ccmadm created, `ccmadm apply " +
				"--force` does it",
		},
		{
			ID: Unauthorized, Reason: "Unauthorized", Severity: SeverityError,
			Title: "API server rejects the cloud-controller-manager's credentials",
			Why:   "Its certificate or token has expired, or is of another cluster's CA.",
			Do:    "renew the credentials, then restart the cloud-controller-manager",
		},
		{
			ID: LeaderSilent, Reason: "LeaderSilent", Title: "Leader has stopped renewing its Lease", Severity: SeverityError,
			Why: "Existing Nodes keep working, but a Node that joins is not initialized, and the Node of a removed machine is not deleted.",
			Do:  "check the cloud-controller-manager's pods and their logs",
		},
		{
			ID: KubeletSilent, Reason: "KubeletSilent", Title: "Kubelet stopped posting status", Severity: SeverityError,
			Why: "The kubelet does not run, restarts again and again, or cannot reach the API server.",
			Do:  "check the kubelet's log on the machine",
		},
		{
			ID: LeaseUnknown, Reason: "LeaseUnknown", Title: "Lease could not be read", Severity: SeverityWarning,
			Why: "Whether the cloud-controller-manager has a leader is unknown.",
			Do:  "run the command again, or with an administrator's kubeconfig",
		},
		{
			ID: IdentityEnds, Reason: "IdentityEnds", Severity: SeverityWarning,
			Title: "Certificate of the cloud-controller-manager expires soon",
			Why:   "After it expires, the API server refuses the cloud-controller-manager, and no Node that joins is initialized.",
			Do:    "renew it; the pod is restarted with the new certificate",
		},
		{
			ID: IdentityEnded, Reason: "IdentityEnded", Severity: SeverityError,
			Title: "Certificate of the cloud-controller-manager has expired",
			Why:   "The API server refuses the cloud-controller-manager.",
			Do:    "renew it; the pod is restarted with the new certificate",
		},
		{
			ID: KubeletNotExternal, Reason: "KubeletNotExternal", Title: "Kubelet is no longer in external mode", Severity: SeverityError,
			Why: "It overwrites the provider's addresses with its own, and when it registers again, its Node is not initialized.",
			Do:  "set the kubelet's --cloud-provider=external, and restart it",
		},
		{
			ID: NoNodes, Reason: "NoNodes", Title: "Cluster has no Node", Severity: SeverityError,
			Why: "No kubelet has registered with this API server.",
			Do:  "check that this is the cluster you mean; read a kubelet's log",
		},
	}
}
