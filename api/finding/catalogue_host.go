package finding

// What shows only on a machine itself (`ccmadm doctor --host`).
const (
	KubeletFlagTwice  ID = "A3"
	NodeIPNotLocal    ID = "A14"
	KubeletNotRun     ID = "K1"
	KubeletStale      ID = "K2"
	KubeletNotEnabled ID = "K3"
	ManifestBroken    ID = "K4"
	CertificateEnded  ID = "K5"
	CertificateEnds   ID = "K6"
	ClockOff          ID = "K7"
	NoResolver        ID = "K8"
	RuntimeSilent     ID = "K9"
	DiskFull          ID = "K10"
	CgroupDrivers     ID = "K11"
	PortTaken         ID = "K12"
	ServiceUnanswered ID = "K13"
	ServerUnreached   ID = "K14"
	ForwardingOff     ID = "K15"
	PacketsLost       ID = "K16"
	KubeletRejected   ID = "K17"
	KubeletRenamed    ID = "K18"
	ConnectionsFull   ID = "K19"
	BridgeUnseen      ID = "K20"
	NodeTwice         ID = "K21"
	CertificateFormer ID = "K22"
)

// hostKubelet is about the kubelet of a machine, and what it is started with.
func hostKubelet() []Kind {
	return []Kind{
		{
			ID: KubeletFlagTwice, Reason: "KubeletFlagTwice", Title: "Kubelet flag is set twice", Severity: SeverityWarning,
			Why: "The last value wins: /etc/default/kubelet or /etc/sysconfig/kubelet overrides kubeadm's file, which overrides the " +
				"unit's files.",
			Do: "remove all but one, then restart the kubelet",
			Links: []string{
				"https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/kubelet-integration/",
			},
		},
		{
			ID: NodeIPNotLocal, Reason: "NodeIPNotLocal", Severity: SeverityError,
			Title: "Kubelet's --node-ip is not an address of this machine",
			Why:   "The kubelet cannot write the Node's status with an address that no interface has, and reports that in its log only.",
			Do:    "set --node-ip to an address of this machine, then restart the kubelet",
		},
		{
			ID: KubeletNotRun, Safe: true, Reason: "KubeletNotRun", Title: "Kubelet is not running", Severity: SeverityError,
			Why: "systemd has stopped the kubelet, or restarts it again and again.",
			Do:  "correct the cause that its log shows",
		},
		{
			ID: KubeletStale, Safe: true, Reason: "KubeletStale", Severity: SeverityWarning,
			Title: "Kubelet runs with other settings than its files have",
			Why:   "A file was changed and the kubelet was not restarted, or the unit does not read that file.",
			Do:    "systemctl daemon-reload && systemctl restart kubelet; pods keep running",
		},
		{
			ID: KubeletNotEnabled, Safe: true, Reason: "KubeletNotEnabled", Severity: SeverityWarning,
			Title: "Kubelet is not enabled at boot",
			Why:   "Its systemd unit is not enabled.",
			Do:    "systemctl enable kubelet",
		},
		{
			ID: KubeletRejected, Reason: "KubeletRejected", Severity: SeverityError,
			Title: "API server and kubelet reject each other's credentials",
			Why: "The API server answers, and does not accept the kubelet's certificate or permissions, or the kubelet does not accept the " +
				"server's certificate: the Node becomes NotReady, or does not register.",
			Do: "give the kubelet a kubeconfig of this cluster's CA, the API server a certificate for the name that kubelets use, or kubelets " +
				"their permissions (Node authorizer)",
			Links: []string{
				"https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/troubleshooting-kubeadm/",
			},
		},
		{
			ID: KubeletRenamed, Reason: "KubeletRenamed", Severity: SeverityError,
			Title: "Kubelet has another name than its certificate",
			Why: "The machine's hostname or --hostname-override has changed since it joined, and the API server lets a kubelet write only the " +
				"Node that its certificate names: that Node becomes NotReady, and one of the new name does not register.",
			Do: "set the former name again and restart the kubelet; to keep the new name, drain and delete the Node, then `kubeadm reset` and join",
		},
		{
			ID: NodeTwice, Reason: "NodeTwice", Title: "Two machines are one Node", Severity: SeverityError,
			Why: "One is a copy of the other with its hostname and kubelet.conf. Both kubelets write the Node's status and run its pods, and its " +
				"addresses change to and fro.",
			Do: "reset the copy, give it a hostname and a machine-id of its own, and join it again",
		},
		{
			ID: CgroupDrivers, Reason: "CgroupDrivers", Severity: SeverityError,
			Title: "Kubelet and container runtime use different cgroup drivers",
			Why:   "Each manages a cgroup tree of its own, and under load the machine becomes unstable.",
			Do: "set SystemdCgroup = true in containerd's configuration, or the kubelet's cgroupDriver to what the runtime has; " +
				"restart both",
			Links: []string{
				"https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/configure-cgroup-driver/",
			},
		},
	}
}

// hostMachine is about what the kubelet and the static pods stand on.
func hostMachine() []Kind {
	return []Kind{
		{
			ID: ManifestBroken, Reason: "ManifestBroken", Title: "Static pod manifest is invalid", Severity: SeverityError,
			Why: "The kubelet reports this in its log only, and it reads every file of the directory whose name does not begin with a " +
				"dot, backups too.",
			Do: "correct the file, or move it out of the directory",
		},
		{
			ID: CertificateEnded, Reason: "CertificateEnded", Title: "Certificate on this machine is not valid", Severity: SeverityError,
			Why: "It has expired, or is not valid yet by this machine's clock, and connections that use it are refused.",
			Do:  "renew it; for the kubelet's own certificate follow kubeadm's guide on client certificate rotation",
			Links: []string{
				"https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-certs/",
			},
		},
		{
			ID: CertificateEnds, Reason: "CertificateEnds", Title: "Certificate on this machine expires soon", Severity: SeverityWarning,
			Why: "After it expires, connections that use it are refused.",
			Do:  "renew it before it expires",
		},
		{
			ID: CertificateFormer, Reason: "CertificateFormer", Severity: SeverityWarning,
			Title: "Component was not restarted after its certificate was renewed",
			Why: "kube-controller-manager and kube-scheduler read their kubeconfig once, when they start, and the API server refuses them as " +
				"soon as the former certificate has expired. One that is not the leader stays Ready until it has to take over.",
			Do: "restart its static pod",
			Links: []string{
				"https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-certs/#manual-certificate-renewal",
			},
		},
		{
			ID: ClockOff, Reason: "ClockOff", Title: "Clock of this machine differs from the API server's", Severity: SeverityWarning,
			Why: "Certificates and tokens appear expired or not yet valid, and times in Leases and Events mislead; from five minutes " +
				"on it is an error.",
			Do: "let chrony or systemd-timesyncd set the clock",
		},
		{
			ID: NoResolver, Reason: "NoResolver", Title: "Resolver configuration for pods does not work", Severity: SeverityError,
			Why: "Pods get the kubelet's resolvConf, and a loopback address in it is the pod's own: CoreDNS queries itself, and exits " +
				"with \"Loop ... detected\".",
			Do: "set resolvConf in the kubelet's configuration to /run/systemd/resolve/resolv.conf, or to a file with reachable name " +
				"servers",
			Links: []string{"https://coredns.io/plugins/loop/#troubleshooting"},
		},
		{
			ID: RuntimeSilent, Reason: "RuntimeSilent", Title: "Container runtime does not respond", Severity: SeverityError,
			Why: "Without the runtime the kubelet starts no container.",
			Do:  "start the runtime, and correct the cause that its log shows",
		},
		{
			ID: DiskFull, Reason: "DiskFull", Title: "Disk has too little free space", Severity: SeverityError,
			Why: "The kubelet evicts pods and pulls no images, and etcd and logs cannot be written.",
			Do:  "delete files that are not needed, or enlarge the disk",
		},
	}
}

// hostNetwork is about the packets of a machine and of its pods.
func hostNetwork() []Kind {
	return []Kind{
		{
			ID: PacketsLost, Reason: "PacketsLost", Title: "Machine loses packets", Severity: SeverityError,
			Why: "Each one that is lost costs 0.2 s and more, so that requests end late or not at all, and leaders lose their Leases.",
			Do: "look for errors and drops of the interfaces and their switch, for a rule that drops at random, and for a link that is full; " +
				"`ping -c 100` of other machines shows on which way they are lost",
		},
		{
			ID: ServiceUnanswered, Reason: "ServiceUnanswered", Severity: SeverityError,
			Title: "API server does not answer at its Service address on this machine",
			Why: "The API server answers at its own address, so kube-proxy's rules on this machine are wrong, and pods here reach no " +
				"Service.",
			Do: "restart kube-proxy's pod on this Node; in nftables mode its maps can stay empty after an upgrade has restarted it",
		},
		{
			ID: ServerUnreached, Reason: "ServerUnreached", Severity: SeverityError,
			Title: "API server is not reachable from this machine",
			Why:   "The kubelet cannot renew its Lease: its Node becomes NotReady, and its pods are evicted.",
			Do:    "correct its name, route or firewall on this machine; if other machines cannot reach it either, repair the API server",
		},
		{
			ID: ForwardingOff, Reason: "ForwardingOff", Title: "IP forwarding is off on this machine", Severity: SeverityError,
			Why: "Packets of pods do not leave the machine, and those for its pods do not arrive; kubeadm checks that once, in preflight.",
			Do:  "switch it on, and keep it in /etc/sysctl.d",
			Links: []string{
				"https://kubernetes.io/docs/setup/production-environment/container-runtimes/#prerequisite-ipv4-forwarding-optional",
			},
		},
		{
			ID: ConnectionsFull, Reason: "ConnectionsFull", Severity: SeverityError,
			Title: "Connection tracking table is full",
			Why:   "The kernel drops packets of new connections, those of Services and of kubelets among them.",
			Do:    "raise nf_conntrack_max (kube-proxy: conntrack.maxPerCore), and look for the program that opens so many connections",
		},
		{
			ID: BridgeUnseen, Reason: "BridgeUnseen", Severity: SeverityWarning,
			Title: "Packets within the pods' bridge pass no rule of kube-proxy",
			Why: "A pod gets no answer from a Service whose endpoint is on its own Node: the answer comes from the endpoint's address. kubeadm " +
				"does not check the setting since 1.30.",
			Do: "load br_netfilter and set net.bridge.bridge-nf-call-iptables to 1 (IPv6: bridge-nf-call-ip6tables), in /etc/modules-load.d and " +
				"/etc/sysctl.d too",
		},
		{
			ID: PortTaken, Reason: "PortTaken", Severity: SeverityError,
			Title: "Port of a Kubernetes component is taken by another program",
			Why:   "The component cannot listen on the port, and exits.",
			Do:    "stop the other program, or give it another port",
		},
	}
}
