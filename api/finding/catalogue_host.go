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
			ID: PortTaken, Reason: "PortTaken", Severity: SeverityError,
			Title: "Port of a Kubernetes component is taken by another program",
			Why:   "The component cannot listen on the port, and exits.",
			Do:    "stop the other program, or give it another port",
		},
	}
}
