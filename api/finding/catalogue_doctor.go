package finding

// What the doctor finds beside the causes of waiting (package doctor/diagnosis).
const (
	WebhookBlocks      ID = "B7"
	CloudNotFound      ID = "C6"
	MetadataUnreached  ID = "C4"
	CloudNotTrusted    ID = "C5"
	SecretMissing      ID = "D1"
	CloudRefuses       ID = "D3"
	RouteFailed        ID = "F3"
	BalancerPending    ID = "G1"
	NoBackend          ID = "G2"
	BalancerStuck      ID = "G4"
	ForeignLeader      ID = "H1"
	TwoManagers        ID = "H2"
	LeaseLost          ID = "H4"
	LeaseAbandoned     ID = "H5"
	ServingCertificate ID = "I2"
	KubeletWithoutNode ID = "N1"
	ShutdownStays      ID = "N2"
	NoZone             ID = "N3"
	MachineTwice       ID = "N4"
	VersionSkew        ID = "N5"
	MachineOff         ID = "N6"
)

// diagnosed is about what managers hang on.
func diagnosed() []Kind {
	return []Kind{
		{
			ID: WebhookBlocks, Reason: "WebhookBlocks", Title: "A webhook refuses because nobody serves it", Severity: SeverityError,
			Why: "Its pods wait for a Node that is initialized, and until they run every write that it guards is refused: pods of the " +
				"cloud-controller-manager, or its writes to Nodes.",
			Do:    "start its pods, or remove the webhook until they run",
			Links: []string{"open-policy-agent/gatekeeper#725", "projectcapsule/capsule#787"},
		},
		{
			ID: MetadataUnreached, Reason: "MetadataUnreached", Title: "The cloud's metadata service is not reached", Severity: SeverityError,
			Why:   "The provider reads there which machine it is on. A pod network is one hop too many for some clouds.",
			Do:    "hostNetwork: true, or a hop limit of 2; check that the machine has a metadata service",
			Links: []string{"kubernetes/kops#10702"},
		},
		{
			ID: CloudNotTrusted, Reason: "CloudNotTrusted", Title: "The cloud's certificate is not trusted", Severity: SeverityError,
			Why:   "The pod does not have the CA that signed it.",
			Do:    "mount the machine's CA certificates, or name the CA in the cloud configuration",
			Links: []string{"kubernetes-sigs/kubespray#9518"},
		},
		{
			ID: CloudNotFound, Reason: "CloudNotFound", Title: "The machine's name server does not know the cloud", Severity: SeverityError,
			Why: "The manager asks the name server of its machine, which has no answer for the address of the cloud's API.",
			Do:  "correct the machine's resolver, or the address in the cloud configuration",
		},
		{
			ID: SecretMissing, Reason: "SecretMissing", Title: "The manager refers to what is not there", Severity: SeverityError,
			Why:   "The kubelet does not start a container whose Secret or ConfigMap is missing.",
			Do:    "create it in the pod's namespace, or correct the name",
			Links: []string{"kubernetes/cloud-provider-openstack#541"},
		},
		{
			ID: CloudRefuses, Reason: "CloudRefuses", Title: "The cloud refuses the manager's credentials", Severity: SeverityError,
			Why:   "They are wrong, have expired, or may not read machines.",
			Do:    "correct them, then restart the manager",
			Links: []string{"kubernetes/cloud-provider-vsphere#479"},
		},
		{
			ID: ForeignLeader, Reason: "ForeignLeader", Title: "Somebody else holds the manager's Lease", Severity: SeverityError,
			Why:   "The manager runs and waits for the Lease, which another program renews: of a distribution, or of an older installation.",
			Do:    "remove the other program, or give this one a Lease of its own with --leader-elect-resource-name",
			Links: []string{"kubernetes/cloud-provider#63"},
		},
		{
			ID: TwoManagers, Reason: "TwoManagers", Title: "Two managers initialize nodes", Severity: SeverityError,
			Why:   "Each writes provider IDs and addresses over the other's, and deletes Nodes that only the other one knows.",
			Do:    "remove one of them, or divide the controllers with --controllers",
			Links: []string{"rancher/rke2#1844", "kubernetes/cloud-provider-openstack#2062"},
		},
		{
			ID: LeaseLost, Reason: "LeaseLost", Title: "The manager loses its Lease", Severity: SeverityWarning,
			Why: "It could not renew it for ten seconds and ends: the API server or etcd is slow.",
			Do:  "look at the API server's and etcd's latency",
		},
		{
			ID: LeaseAbandoned, Reason: "LeaseAbandoned", Title: "The Lease's holder is gone, and the manager waits for it",
			Severity: SeverityError,
			Why: "Whoever finds the Lease held waits for as long as it lasts, counted from then on and with each start " +
				"anew. Its holder is no more, and has left one that lasts long.",
			Do: "delete the Lease: the manager makes it anew at once",
		},
	}
}

// lasting is about what shows in nodes and Services that are there for long.
func lasting() []Kind {
	return []Kind{
		{
			ID: RouteFailed, Safe: true, Reason: "RouteFailed", Title: "The cloud's route to a Node was not made", Severity: SeverityError,
			Why: "The Node has taint network-unavailable, and nothing but a route controller or a CNI plugin takes it away, not even " +
				"when routes are switched off.",
			Do: "correct what the message says; where routes are off, set the condition NetworkUnavailable to False",
			Links: []string{
				"kubernetes/cloud-provider-alibaba-cloud#121",
				"kubernetes/kubernetes#120486",
			},
		},
		{
			ID: BalancerPending, Reason: "BalancerPending", Title: "A Service has no load balancer", Severity: SeverityError,
			Why: "Nobody has given it an address for five minutes.",
			Do:  "look at the Service's events; `ccmadm lb why SERVICE` with the provider onprem",
		},
		{
			ID: NoBackend, Reason: "NoBackend", Title: "Every Node is excluded from load balancers", Severity: SeverityError,
			Why:   "kubeadm labels control planes with node.kubernetes.io/exclude-from-external-load-balancers, and there are no others.",
			Do:    "remove the label where control planes are to serve: kubectl label nodes --all node.kubernetes.io/exclude-from-external-load-balancers-",
			Links: []string{"kubernetes/kubeadm#2375"},
		},
		{
			ID: BalancerStuck, Reason: "BalancerStuck", Title: "A Service cannot be deleted", Severity: SeverityError,
			Why:   "It has the finalizer of load balancers, which only a manager removes that has deleted the load balancer.",
			Do:    "let the manager run; last of all, delete the load balancer in the cloud and remove the finalizer by hand",
			Links: []string{"kubernetes/kubernetes#53451"},
		},
		{
			ID: ServingCertificate, Reason: "ServingCertificate", Title: "Nobody approves kubelets' serving certificates", Severity: SeverityWarning,
			Why:   "With serverTLSBootstrap kubelets ask for them, and Kubernetes approves none by itself: logs, exec and metrics fail.",
			Do:    "servingCertificates.enabled has them approved (docs/tasks/serving-certificates.md); by hand, check who asked first",
			Links: []string{"kubernetes/kubernetes#73356"},
		},
		{
			ID: KubeletWithoutNode, Reason: "KubeletWithoutNode", Title: "A kubelet runs whose Node was deleted", Severity: SeverityError,
			Why: "A cloud-controller-manager deletes the Node of a machine that its cloud does not know, while the Node is not Ready. A " +
				"kubelet registers once, when it starts.",
			Do:    "correct the Node's name, or the manager's credentials and region, then restart the kubelet",
			Links: []string{"kubernetes/kubernetes#58334", "oracle/oci-cloud-controller-manager#434"},
		},
		{
			ID: ShutdownStays, Safe: true, Reason: "ShutdownStays", Title: "A Node that runs is said to be switched off", Severity: SeverityError,
			Why: "Taint node.cloudprovider.kubernetes.io/shutdown is removed by a manager that leads and sees the Node Ready.",
			Do:  "let the manager run",
		},
		{
			ID: NoZone, Reason: "NoZone", Title: "A Node has no zone, and others have one", Severity: SeverityWarning,
			Why:   "Labels are written when the Node is initialized: it was not, or the cloud did not tell.",
			Do:    "let the manager initialize it again; where its provider does not know the machine, set the label by hand",
			Links: []string{"oracle/oci-cloud-controller-manager#458"},
		},
		{
			ID: MachineTwice, Reason: "MachineTwice", Title: "One machine has two Nodes", Severity: SeverityWarning,
			Why: "Its name changed, and the Node of the old name stays, silent. A manager may match both to one instance.",
			Do:  "delete the Node that is silent, once its pods are known to be gone",
		},
		{
			ID: VersionSkew, Reason: "VersionSkew", Title: "A kubelet is not of a version that fits the API server", Severity: SeverityWarning,
			Why:   "Kubelets may be up to three minor versions older than the API server, and never newer.",
			Do:    "upgrade what is older",
			Links: []string{"https://kubernetes.io/releases/version-skew-policy/"},
		},
		{
			ID: MachineOff, Reason: "MachineOff", Title: "A machine is switched off", Severity: SeverityWarning,
			Why: "The manager has asked the cloud about a Node that is not Ready, and it says so: taint " +
				"node.cloudprovider.kubernetes.io/shutdown. Its kubelet is silent for that reason.",
			Do: "nothing where that is meant; else start the machine",
		},
	}
}
