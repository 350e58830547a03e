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
)

// hostKubelet is about the kubelet of a machine, and what it is started with.
func hostKubelet() []Kind {
	return []Kind{
		{
			ID: KubeletFlagTwice, Reason: "KubeletFlagTwice", Title: "A flag of the kubelet is set twice", Severity: SeverityWarning,
			Why: "The last one wins: /etc/default/kubelet or /etc/sysconfig/kubelet over what kubeadm wrote, and that over the unit's files.",
			Do:  "remove all but one, then restart the kubelet",
			Links: []string{
				"https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/kubelet-integration/",
			},
		},
		{
			ID: NodeIPNotLocal, Reason: "NodeIPNotLocal", Title: "The kubelet's address is not this machine's", Severity: SeverityError,
			Why: "The kubelet cannot write the Node's status with an address that no interface has, and says so in its log only.",
			Do:  "give --node-ip an address of this machine, then restart the kubelet",
		},
		{
			ID: KubeletNotRun, Safe: true, Reason: "KubeletNotRun", Title: "The kubelet does not run on this machine", Severity: SeverityError,
			Why: "systemd has stopped it, or starts it again and again.",
			Do:  "correct what its log says",
		},
		{
			ID: KubeletStale, Safe: true, Reason: "KubeletStale", Title: "The kubelet does not run with what its files say", Severity: SeverityWarning,
			Why: "A file was changed and the kubelet not restarted, or the unit does not read that file.",
			Do:  "systemctl daemon-reload && systemctl restart kubelet; pods run on",
		},
		{
			ID: KubeletNotEnabled, Safe: true, Reason: "KubeletNotEnabled", Title: "The kubelet is not started at the next boot", Severity: SeverityWarning,
			Why: "Its unit is not enabled.",
			Do:  "systemctl enable kubelet",
		},
		{
			ID: CgroupDrivers, Reason: "CgroupDrivers", Title: "Kubelet and container runtime use different cgroup drivers", Severity: SeverityError,
			Why: "Each keeps a tree of its own, and under load the machine becomes unstable.",
			Do:  "set SystemdCgroup = true in containerd's configuration, or the kubelet's cgroupDriver to what the runtime has; restart both",
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
			ID: ManifestBroken, Reason: "ManifestBroken", Title: "A static pod's manifest cannot be used", Severity: SeverityError,
			Why: "The kubelet says so in its log only. It reads every file of the directory whose name does not begin with a dot, backups too.",
			Do:  "correct the file, or move it out of the directory",
		},
		{
			ID: CertificateEnded, Reason: "CertificateEnded", Title: "A certificate on this machine is not valid", Severity: SeverityError,
			Why: "It has ended, or its time has not come by this machine's clock: whoever shows it is refused.",
			Do:  "renew it; the kubelet's own with kubeadm's guide on client certificate rotation",
			Links: []string{
				"https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/kubeadm-certs/",
			},
		},
		{
			ID: CertificateEnds, Reason: "CertificateEnds", Title: "A certificate on this machine is near its end", Severity: SeverityWarning,
			Why: "After its end whoever shows it is refused.",
			Do:  "renew it in time",
		},
		{
			ID: ClockOff, Reason: "ClockOff", Title: "This machine's clock differs from the API server's", Severity: SeverityWarning,
			Why: "Certificates and tokens seem to have ended or not begun, and times in Leases and Events mislead. Five minutes are an error.",
			Do:  "let chrony or systemd-timesyncd set the clock",
		},
		{
			ID: NoResolver, Reason: "NoResolver", Title: "The resolver that pods get does not resolve", Severity: SeverityError,
			Why: "Pods get the kubelet's resolvConf. An address of loopback in it is the pod's own: CoreDNS asks itself, and ends with \"Loop ... " +
				"detected\".",
			Do:    "name /run/systemd/resolve/resolv.conf, or a file with reachable name servers, as resolvConf in the kubelet's configuration",
			Links: []string{"https://coredns.io/plugins/loop/#troubleshooting"},
		},
		{
			ID: RuntimeSilent, Reason: "RuntimeSilent", Title: "The container runtime does not answer", Severity: SeverityError,
			Why: "The kubelet starts no container without it.",
			Do:  "start it, and correct what its log says",
		},
		{
			ID: DiskFull, Reason: "DiskFull", Title: "The disk has no room", Severity: SeverityError,
			Why: "The kubelet evicts pods and pulls no images; etcd and logs cannot be written.",
			Do:  "remove what is not needed, or give it more room",
		},
		{
			ID: ServiceUnanswered, Reason: "ServiceUnanswered", Title: "The API server does not answer at its Service's address on this machine",
			Severity: SeverityError,
			Why: "The API server answers at its own address: kube-proxy's rules on this machine are wrong, and pods here reach no Service. In nftables " +
				"mode its maps were found empty after an upgrade had restarted it, and stayed so.",
			Do: "restart kube-proxy's pod on this Node",
		},
		{
			ID: PortTaken, Reason: "PortTaken", Title: "Another program has the port of a part of Kubernetes", Severity: SeverityError,
			Why: "The part cannot listen there, and ends.",
			Do:  "stop the other program, or give it another port",
		},
	}
}
