package finding

// What stands in the way of an upgrade (package phases/upgrade).
const (
	UpgradeTarget ID = "U1"
	NoRelease     ID = "U2"
	ManagerSkew   ID = "U3"
	FlagGone      ID = "U4"
	GateGone      ID = "U5"
	NoNodeForJob  ID = "U6"
	FlagsUnseen   ID = "U7"
	HalfUpgraded  ID = "U8"
	OwnImage      ID = "U9"
	KubeletSkew   ID = "U10"
	KubeadmPlan   ID = "U11"
	ManagerImage  ID = "U12"
	MachineLacks  ID = "U13"
	OtherRelease  ID = "U14"
	GateLocked    ID = "U15"
	RuntimeEnds   ID = "U16"
	ProxyModeEnds ID = "U17"
	ExternalIPs   ID = "U18"
	MeansElse     ID = "U19"

	ProxyModeDefault ID = "U20"
)

// upgrades is about the version that a cluster is to have.
func upgrades() []Kind {
	return []Kind{
		{
			ID: UpgradeTarget, Reason: "UpgradeTarget", Title: "Target version cannot be reached", Severity: SeverityError,
			Why: "Kubernetes is upgraded one minor version at a time, and never downgraded.",
			Do:  "choose a release of the next minor version that this ccmadm supports, or install a newer ccmadm",
		},
		{
			ID: NoRelease, Reason: "NoRelease", Title: "Provider has no release for the target version", Severity: SeverityError,
			Why: "A release for another minor version may know other flags and other APIs.",
			Do:  "wait for the release, or set --image to one that works with the target version",
		},
		{
			ID: ManagerSkew, Reason: "ManagerSkew", Severity: SeverityError,
			Title: "cloud-controller-manager and API server versions are too far apart",
			Why:   "A cloud-controller-manager must not be newer than an API server, and at most one minor version older.",
			Do:    "change the cloud-controller-manager to the release for the oldest API server's minor version",
			Links: []string{"https://kubernetes.io/releases/version-skew-policy/"},
		},
		{
			ID: FlagGone, Reason: "FlagGone", Title: "Component of the target version refuses an argument", Severity: SeverityError,
			Why: "The component exits with: unknown flag.",
			Do:  "remove the argument",
		},
		{
			ID: GateGone, Reason: "GateGone", Severity: SeverityError,
			Title: "Component of the target version does not know a feature gate",
			Why:   "The component exits with: unrecognized feature gate.",
			Do:    "remove the gate: its feature is always on, or was removed",
		},
		{
			ID: GateLocked, Reason: "GateLocked", Title: "Feature gate is locked to another value", Severity: SeverityError,
			Why: "A component that gets another value than the locked default exits with: cannot set feature gate.",
			Do:  "remove the gate",
		},
		{
			ID: NoNodeForJob, Reason: "NoNodeForJob", Title: "No Node can run kubeadm's preflight Job", Severity: SeverityError,
			Why:   "kubeadm upgrade creates a Job, waits for one minute, and exits with: ERROR CreateJob.",
			Do:    "initialize and uncordon one Node first",
			Links: []string{"kubernetes/kubeadm#3050"},
		},
	}
}

// The minor versions that end what works now. Upstream has them in KEPs alone: no program reports them.
const (
	runtimeAsked = "1.38" // the kubelet has no other source of the cgroup driver
	proxyModes   = "1.40" // ipvs is off, and nftables is the default
	externalIPs  = "1.40" // kube-proxy no longer serves them
)

// upgradesAhead are about what works now, and does not in a minor version to come. Their findings are made by [ID.Ahead].
func upgradesAhead() []Kind {
	return []Kind{
		{
			ID: RuntimeEnds, Reason: "RuntimeEnds", Title: "Container runtime is too old for Kubernetes " + runtimeAsked,
			Severity: SeverityError, Since: runtimeAsked,
			Why: "From " + runtimeAsked + " on, a kubelet asks the runtime for its cgroup driver, and exits if it gets no answer. " +
				"containerd 1.x gives none.",
			Do:    "upgrade containerd to 2.0 or newer before the kubelet",
			Links: []string{"kubernetes/kubernetes#136731", "kubernetes/enhancements#4033"},
		},
		{
			ID: ProxyModeEnds, Reason: "ProxyModeEnds", Title: "kube-proxy is in mode ipvs", Severity: SeverityWarning, Since: proxyModes,
			Why: "The mode is deprecated. Its feature gate KubeProxyIPVS is off from " + proxyModes + " on, and kube-proxy does not start in it.",
			Do: "set mode: nftables in the KubeProxyConfiguration; in a cluster that is ConfigMap/kube-system/kube-proxy, and its DaemonSet " +
				"is restarted then",
			Links: []string{"https://kep.k8s.io/5495"},
		},
		{
			ID: ProxyModeDefault, Reason: "ProxyModeDefault", Title: "kube-proxy is in mode iptables", Severity: SeverityNote, Since: proxyModes,
			Why:   "kube-proxy without a mode uses nftables from " + proxyModes + " on. Mode iptables stays available if it is set.",
			Do:    "try mode: nftables on a cluster for tests; to stay with iptables, write mode: iptables",
			Links: []string{"https://kep.k8s.io/5343"},
		},
		{
			ID: ExternalIPs, Reason: "ExternalIPs", Title: "Services have externalIPs", Severity: SeverityWarning, Since: externalIPs,
			Why: "The field is deprecated since 1.36, and kube-proxy ignores it from " + externalIPs + " on. Users who can write it can take " +
				"the traffic of others (CVE-2020-8554).",
			Do:    "use a Service of type LoadBalancer with an AddressPool; `ccmadm lb external-ips` prints the commands",
			Links: []string{"https://kep.k8s.io/5707"},
		},
		{
			ID: MeansElse, Reason: "MeansElse", Title: "Setting changes its meaning in the target version", Severity: SeverityWarning,
			Why: "The component accepts the value, and behaves differently.",
			Do:  "before the upgrade, set the value for the behavior that you want; the message names both",
		},
	}
}

// upgradesHalfDone is about what is seen in part, or done in part.
func upgradesHalfDone() []Kind {
	return []Kind{
		{
			ID: FlagsUnseen, Reason: "FlagsUnseen", Title: "Kubelet arguments cannot be read", Severity: SeverityWarning,
			Why: "A kubelet that is restarted with a removed argument does not start.",
			Do:  "check the files on the machines that the message names",
		},
		{
			ID: HalfUpgraded, Reason: "HalfUpgraded", Title: "Upgrade is not finished", Severity: SeverityWarning,
			Why: "Control planes have different versions.",
			Do:  "finish the upgrade: the plan lists the machines that are left",
		},
		{
			ID: OwnImage, Reason: "OwnImage", Title: "Image of the cloud-controller-manager was chosen by hand", Severity: SeverityWarning,
			Why: "No profile records which Kubernetes version the image is for.",
			Do:  "check that the image is for the target version",
		},
		{
			ID: KubeletSkew, Reason: "KubeletSkew", Title: "Kubelet and target version are too far apart", Severity: SeverityError,
			Why:   "A kubelet must not be newer than the API server, and at most three minor versions older.",
			Do:    "upgrade the kubelet first, or choose another version",
			Links: []string{"https://kubernetes.io/releases/version-skew-policy/"},
		},
		{
			ID: KubeadmPlan, Reason: "KubeadmPlan", Title: "kubeadm's own upgrade plan fails", Severity: SeverityError,
			Why: "kubeadm upgrade apply begins with the same checks.",
			Do:  "correct the cause that kubeadm reports",
		},
		{
			ID: ManagerImage, Reason: "ManagerImage", Severity: SeverityError,
			Title: "Image of the cloud-controller-manager for the target version is not available",
			Why:   "The kubelet would stop the current cloud-controller-manager, and could not start the next one.",
			Do:    "push the image to the registry, or set another one with --image",
		},
		{
			ID: MachineLacks, Reason: "MachineLacks", Title: "Machine cannot be upgraded from here", Severity: SeverityError,
			Why: "An upgrade that stops halfway leaves control planes of two versions, so prerequisites are checked first.",
			Do:  "provide the missing prerequisite on the machine, or leave the machine out with --skip",
		},
		{
			ID: OtherRelease, Reason: "OtherRelease", Title: "Control planes have different releases of ccmadm", Severity: SeverityWarning,
			Why: "Each uses the images of its own release, so the images change with the machine that ran last.",
			Do:  "install the same release on all control planes; any ccmadm apply or upgrade records it on the machine's Node",
		},
	}
}
