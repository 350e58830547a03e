package finding

// What the doctor finds beside the causes of waiting (package doctor/diagnosis).
const (
	WebhookBlocks      ID = "B7"
	CloudNotFound      ID = "C6"
	MetadataUnreached  ID = "C4"
	CloudNotTrusted    ID = "C5"
	CloudUnanswered    ID = "C7"
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
			ID: WebhookBlocks, Reason: "WebhookBlocks", Severity: SeverityError,
			Title: "Admission webhook has no endpoint and refuses requests",
			Why: "Its pods wait for an initialized Node, and until they run it refuses the writes that it guards: pods of the " +
				"cloud-controller-manager, or its updates of Nodes.",
			Do:    "start the webhook's pods, or have it refuse nothing until they run, by failurePolicy Ignore",
			Links: []string{"open-policy-agent/gatekeeper#725", "projectcapsule/capsule#787"},
		},
		{
			ID: MetadataUnreached, Reason: "MetadataUnreached", Title: "Cloud metadata service is unreachable", Severity: SeverityError,
			Why:   "The provider reads there which machine it runs on, and for some clouds the pod network is one hop too many.",
			Do:    "set hostNetwork: true, or a hop limit of 2; check that the machine has a metadata service",
			Links: []string{"kubernetes/kops#10702"},
		},
		{
			ID: CloudNotTrusted, Reason: "CloudNotTrusted", Title: "Certificate of the cloud API is not trusted", Severity: SeverityError,
			Why:   "The pod does not have the CA that signed the certificate.",
			Do:    "mount the machine's CA certificates, or set the CA in the cloud configuration",
			Links: []string{"kubernetes-sigs/kubespray#9518"},
		},
		{
			ID: CloudNotFound, Reason: "CloudNotFound", Title: "Name of the cloud API does not resolve", Severity: SeverityError,
			Why: "The cloud-controller-manager uses the name server of its machine, which returns no address for the cloud API.",
			Do:  "correct the machine's resolver, or the address in the cloud configuration",
		},
		{
			ID: CloudUnanswered, Reason: "CloudUnanswered", Title: "Cloud gives no answer about any Node", Severity: SeverityWarning,
			Why: "The cloud-controller-manager asks its cloud about each Node every five minutes, and gets errors only. Nodes stay as they are, " +
				"so that nothing else shows it: a machine that joins is not initialized, and the Node of a removed one is not deleted.",
			Do: "correct the cause of the error: the route, firewall, proxy or name server on the way to the cloud API, its certificate, or the " +
				"credentials",
		},
		{
			ID: SecretMissing, Reason: "SecretMissing", Severity: SeverityError,
			Title: "Secret or ConfigMap of the cloud-controller-manager is missing",
			Why:   "The kubelet does not start a container whose Secret or ConfigMap is missing.",
			Do:    "create the object in the pod's namespace, or correct its name",
			Links: []string{"kubernetes/cloud-provider-openstack#541"},
		},
		{
			ID: CloudRefuses, Reason: "CloudRefuses", Severity: SeverityError,
			Title: "Cloud rejects the cloud-controller-manager's credentials",
			Why:   "The credentials are wrong, have expired, or do not allow reading machines.",
			Do:    "correct the credentials, then restart the cloud-controller-manager",
			Links: []string{"kubernetes/cloud-provider-vsphere#479"},
		},
		{
			ID: ForeignLeader, Reason: "ForeignLeader", Severity: SeverityError,
			Title: "Lease of the cloud-controller-manager is held by another program",
			Why: "The cloud-controller-manager waits for the Lease, which another program renews: that of a distribution, or of an " +
				"older installation.",
			Do:    "remove the other program, or give this one a Lease of its own with --leader-elect-resource-name",
			Links: []string{"kubernetes/cloud-provider#63"},
		},
		{
			ID: TwoManagers, Reason: "TwoManagers", Title: "Two cloud-controller-managers initialize Nodes", Severity: SeverityError,
			Why:   "Each overwrites the provider IDs and addresses of the other, and deletes Nodes that only the other knows.",
			Do:    "remove one of them, or divide the controllers with --controllers",
			Links: []string{"rancher/rke2#1844", "kubernetes/cloud-provider-openstack#2062"},
		},
		{
			ID: LeaseLost, Reason: "LeaseLost", Title: "cloud-controller-manager loses its Lease", Severity: SeverityWarning,
			Why: "It could not renew the Lease for ten seconds and exits: the API server or etcd is slow, or refuses the renewal.",
			Do:  "correct the error before it, where the log has one; else check the latency of the API server and of etcd",
		},
		{
			ID: LeaseAbandoned, Reason: "LeaseAbandoned", Severity: SeverityError,
			Title: "Lease is held by a process that no longer exists",
			Why: "A candidate waits for the whole duration of a held Lease, counted from each of its starts, and the former holder " +
				"left a long duration.",
			Do: "delete the Lease: the cloud-controller-manager creates it again at once",
		},
	}
}

// lasting is about what shows in nodes and Services that are there for long.
func lasting() []Kind {
	return []Kind{
		{
			ID: RouteFailed, Safe: true, Reason: "RouteFailed", Severity: SeverityError,
			Title: "Cloud route to the Node could not be created",
			Why: "The Node has the network-unavailable taint, and only a route controller or a CNI plugin removes it, even when " +
				"routes are switched off.",
			Do: "correct the cause in the message; where routes are off, set the condition NetworkUnavailable to False",
			Links: []string{
				"kubernetes/cloud-provider-alibaba-cloud#121",
				"kubernetes/kubernetes#120486",
			},
		},
		{
			ID: BalancerPending, Reason: "BalancerPending", Title: "LoadBalancer Service has no address", Severity: SeverityError,
			Why: "No load balancer controller has assigned an address for five minutes.",
			Do: "correct the cause in the Service's Events: `ccmadm provider show NAME` lists what load balancers of a cloud need; " +
				"with the provider onprem, `ccmadm lb why SERVICE` shows the reason",
		},
		{
			ID: NoBackend, Reason: "NoBackend", Title: "Every Node is excluded from load balancers", Severity: SeverityError,
			Why: "kubeadm labels control planes with node.kubernetes.io/exclude-from-external-load-balancers, and there are no other Nodes.",
			Do: "remove the label where control planes are to serve: kubectl label nodes --all " +
				"node.kubernetes.io/exclude-from-external-load-balancers-",
			Links: []string{"kubernetes/kubeadm#2375"},
		},
		{
			ID: BalancerStuck, Reason: "BalancerStuck", Title: "Service cannot be deleted", Severity: SeverityError,
			Why: "It has the load balancer finalizer, which only a cloud-controller-manager removes, after it has deleted the load " +
				"balancer.",
			Do: "start a cloud-controller-manager, which deletes both; as a last resort, delete the load balancer in the cloud and remove the " +
				"finalizer by hand",
			Links: []string{"kubernetes/kubernetes#53451"},
		},
		{
			ID: ServingCertificate, Reason: "ServingCertificate", Severity: SeverityWarning,
			Title: "Kubelet serving certificates are not approved",
			Why: "With serverTLSBootstrap kubelets request serving certificates, and Kubernetes approves none by itself: logs, exec " +
				"and metrics fail.",
			Do: "set servingCertificates.enabled (docs/tasks/serving-certificates.md); before you approve by hand, check which " +
				"machine sent the request",
			Links: []string{"kubernetes/kubernetes#73356"},
		},
		{
			ID: KubeletWithoutNode, Reason: "KubeletWithoutNode", Title: "Kubelet runs without a Node", Severity: SeverityError,
			Why: "A cloud-controller-manager deletes a Node that is not Ready if its cloud does not know the machine, and a kubelet " +
				"registers once after each start.",
			Do:    "correct the Node's name, or the cloud-controller-manager's credentials and region, then restart the kubelet",
			Links: []string{"kubernetes/kubernetes#58334", "oracle/oci-cloud-controller-manager#434"},
		},
		{
			ID: ShutdownStays, Safe: true, Reason: "ShutdownStays", Title: "Ready Node has the shutdown taint", Severity: SeverityError,
			Why: "Only a cloud-controller-manager that is the leader, and that sees the Node Ready, removes the taint " +
				"node.cloudprovider.kubernetes.io/shutdown.",
			Do: "start a cloud-controller-manager, which removes the taint; if none is to run, remove the taint by hand",
		},
		{
			ID: NoZone, Reason: "NoZone", Title: "Node has no zone label, and other Nodes have one", Severity: SeverityWarning,
			Why: "Zone labels are written when the Node is initialized: it was not initialized, or the cloud returned no zone.",
			Do: "set the uninitialized taint on the Node again, so that the cloud-controller-manager initializes it; if its provider " +
				"does not know the machine, set the label by hand",
			Links: []string{"oracle/oci-cloud-controller-manager#458"},
		},
		{
			ID: MachineTwice, Reason: "MachineTwice", Title: "Machine has two Nodes", Severity: SeverityWarning,
			Why: "The machine's name changed, and the Node of the old name stays NotReady; a cloud-controller-manager may match both " +
				"to one instance.",
			Do: "delete the Node whose kubelet posts no status, once its pods are known to be gone",
		},
		{
			ID: VersionSkew, Reason: "VersionSkew", Title: "Kubelet version does not fit the API server", Severity: SeverityWarning,
			Why:   "Kubelets may be up to three minor versions older than the API server, and never newer.",
			Do:    "upgrade the older component",
			Links: []string{"https://kubernetes.io/releases/version-skew-policy/"},
		},
		{
			ID: MachineOff, Reason: "MachineOff", Title: "Machine is switched off", Severity: SeverityWarning,
			Why: "The cloud reports that the machine is off (taint node.cloudprovider.kubernetes.io/shutdown): its kubelet posts no status.",
			Do:  "nothing if this is intended; otherwise start the machine",
		},
	}
}
