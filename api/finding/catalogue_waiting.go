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
			ID: NodeAbsent, Reason: "NodeAbsent", Title: "No such Node", Severity: SeverityError,
			Why: "A machine becomes a Node when its kubelet registers with the API server.",
			Do:  "look at the kubelet's log on the machine",
		},
		{
			ID: NeverTainted, Reason: "NeverTainted", Title: "The Node has neither taint nor provider ID",
			Severity: SeverityError,
			Why: "A cloud-controller-manager initializes Nodes that have the taint, and a kubelet sets it only when it " +
				"registers, with --cloud-provider=external.",
			Do:    "correct the kubelet's flags, then set the taint by hand or let the machine join again",
			Links: []string{"kubernetes/kubeadm#1021"},
		},
		{
			ID: NoInternalIP, Reason: "NoInternalIP", Title: "The Node has no internal IP", Severity: SeverityError,
			Why: "Logs, exec and webhooks reach a node at its internal IP.",
			Do:  "look at what the cloud-controller-manager says of the node's addresses",
		},
		{
			ID: NodeIPUnknown, Reason: "NodeIPUnknown", Title: "The kubelet's node IP is none of the machine's",
			Severity: SeverityError,
			Why:      "A cloud-controller-manager leaves a Node alone whose --node-ip the cloud does not list.",
			Do:       "correct or remove --node-ip",
			Links:    []string{"kubernetes/kubernetes#125348"},
		},
		{
			ID: NotReady, Reason: "NotReady", Title: "The kubelet is not ready", Severity: SeverityError,
			Why: "The scheduler leaves the node alone.",
			Do:  "do what the kubelet's condition asks for; most often a CNI plugin is missing",
		},
		{
			ID: NotVisible, Reason: "NotVisible", Title: "The cause is not visible from here", Severity: SeverityWarning,
			Why: "Who asked may not look at the cloud-controller-manager's pods, or they could not be asked.",
			Do:  "ask from a control plane",
		},
		{
			ID: NoLeader, Reason: "NoLeader", Title: "No cloud-controller-manager leads", Severity: SeverityError,
			Why: "Its controllers start when it holds the Lease.",
			Do:  "look at its log",
		},
		{
			ID: NoNodeController, Reason: "NoNodeController", Title: "The node controller does not run",
			Severity: SeverityError,
			Why: "The cloud did not answer when the manager started, or its provider knows no instances. It " +
				"never tries again.",
			Do: "once the cloud answers, restart the manager",
		},
		{
			ID: NotServed, Reason: "NotServed", Title: "The manager has not served the node", Severity: SeverityError,
			Why: "It runs and leads, and its log has no error about the node.",
			Do:  "look at the whole log",
		},
	}
}

// waitingForCluster is about what nodes wait for together.
func waitingForCluster() []Kind {
	return []Kind{
		{
			ID: ManagerFails, Reason: "ManagerFails", Title: "The manager fails with the node", Severity: SeverityError,
			Why: "Its log has an error about the node.",
			Do:  "do what the error says",
		},
		{
			ID: MissingPermission, Reason: "MissingPermission", Title: "A permission is missing", Severity: SeverityError,
			Why: "The API server refuses what the cloud-controller-manager has to do.",
			Do:  "allow it in a role of the manager's user; `ccmadm apply --force` does in a cluster that ccmadm has made",
		},
		{
			ID: Unauthorized, Reason: "Unauthorized", Title: "The manager's credentials are not accepted",
			Severity: SeverityError,
			Why:      "Its certificate or token has expired, or is of another cluster's CA.",
			Do:       "renew them, and restart the manager",
		},
		{
			ID: LeaderSilent, Reason: "LeaderSilent", Title: "The leader has gone silent", Severity: SeverityError,
			Why: "Nodes that are there keep working, and none that joins is initialized; no machine that is gone is removed.",
			Do:  "look at the manager's pods and their log",
		},
		{
			ID: KubeletSilent, Reason: "KubeletSilent", Title: "The kubelet has gone silent", Severity: SeverityError,
			Why: "The kubelet stopped posting its status: it does not run, starts again and again, or " +
				"cannot reach the API server.",
			Do: "look at the kubelet's log on the machine",
		},
		{
			ID: LeaseUnknown, Reason: "LeaseUnknown", Title: "The Lease could not be looked at", Severity: SeverityWarning,
			Why: "Whether a cloud-controller-manager leads is not known.",
			Do:  "ask again, or as an administrator",
		},
		{
			ID:       IdentityEnds,
			Reason:   "IdentityEnds",
			Title:    "The manager's certificate is near its end",
			Severity: SeverityWarning,
			Why:      "After its end the API server refuses the cloud-controller-manager, and no node that joins is initialized.",
			Do:       "renew it; the pod is started again with the new one",
		},
		{
			ID: IdentityEnded, Reason: "IdentityEnded", Title: "The manager's certificate has ended", Severity: SeverityError,
			Why: "The API server refuses the cloud-controller-manager.",
			Do:  "renew it; the pod is started again with the new one",
		},
		{
			ID:       KubeletNotExternal,
			Reason:   "KubeletNotExternal",
			Title:    "The kubelet is not in external mode any more",
			Severity: SeverityError,
			Why:      "It writes addresses of its own over the provider's, and when it registers anew, nobody initializes the Node.",
			Do:       "give the kubelet --cloud-provider=external, and restart it",
		},
		{
			ID: NoNodes, Reason: "NoNodes", Title: "There is no Node", Severity: SeverityError,
			Why: "No kubelet has registered with this API server.",
			Do:  "check that this is the cluster you mean; look at a kubelet's log",
		},
	}
}
