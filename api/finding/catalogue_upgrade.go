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
)

// upgrades is about the version that a cluster is to have.
func upgrades() []Kind {
	return []Kind{
		{
			ID: UpgradeTarget, Reason: "UpgradeTarget", Title: "The version cannot be reached", Severity: SeverityError,
			Why: "Kubernetes goes one minor version at a time, and never back.",
			Do:  "name a release of the next minor version that this ccmadm knows, or install a newer ccmadm",
		},
		{
			ID: NoRelease, Reason: "NoRelease", Title: "The provider has no release for the version", Severity: SeverityError,
			Why: "A release for another minor version may know other flags and other APIs.",
			Do:  "wait for the release, or name an image that works",
		},
		{
			ID: ManagerSkew, Reason: "ManagerSkew", Title: "The manager and an API server are too far apart",
			Severity: SeverityError,
			Why:      "A cloud-controller-manager must not be newer than an API server, and at most one minor version older.",
			Do:       "bring the manager to the release of the oldest API server's minor version",
			Links:    []string{"https://kubernetes.io/releases/version-skew-policy/"},
		},
		{
			ID: FlagGone, Reason: "FlagGone", Title: "A component of the version refuses an argument", Severity: SeverityError,
			Why: "It ends with: unknown flag.",
			Do:  "remove the argument",
		},
		{
			ID: GateGone, Reason: "GateGone", Title: "A component of the version does not know a feature gate",
			Severity: SeverityError,
			Why:      "It ends with: unrecognized feature gate.",
			Do:       "remove the gate: what it was for is always on, or gone",
		},
		{
			ID: GateLocked, Reason: "GateLocked", Title: "A feature gate has a value that the version does not take",
			Severity: SeverityError,
			Why:      "The gate is locked to its default: a component that is given another value ends with: cannot set feature gate.",
			Do:       "remove the gate",
		},
		{
			ID: NoNodeForJob, Reason: "NoNodeForJob", Title: "No Node takes the Job of kubeadm's preflight",
			Severity: SeverityError,
			Why:      "kubeadm upgrade makes a Job, waits for a minute, and ends with: ERROR CreateJob.",
			Do:       "have one Node initialized and uncordoned first",
			Links:    []string{"kubernetes/kubeadm#3050"},
		},
	}
}

// upgradesAhead are about what works now, and does not in a minor version to come.
func upgradesAhead() []Kind {
	return []Kind{
		{
			ID: RuntimeEnds, Reason: "RuntimeEnds", Title: "Container runtime is too old for Kubernetes 1.38", Severity: SeverityWarning,
			Why: "A kubelet of 1.38 and newer asks the runtime for its cgroup driver and ends where it does not answer, which containerd " +
				"1.x does not.",
			Do:    "upgrade containerd to 2.0 or newer before the kubelet",
			Links: []string{"kubernetes/kubernetes#136731", "kubernetes/enhancements#4033"},
		},
		{
			ID: ProxyModeEnds, Reason: "ProxyModeEnds", Title: "kube-proxy is in mode ipvs", Severity: SeverityWarning,
			Why:   "The mode is deprecated: its feature gate KubeProxyIPVS is off from 1.40 on, and kube-proxy does not start in it.",
			Do:    "set mode: nftables in the ConfigMap kube-proxy, and restart the DaemonSet",
			Links: []string{"https://kep.k8s.io/5495"},
		},
		{
			ID: ExternalIPs, Reason: "ExternalIPs", Title: "Services have externalIPs", Severity: SeverityWarning,
			Why: "The field is deprecated since 1.36, and kube-proxy passes over it from 1.40 on. Who can write it can take others' traffic " +
				"(CVE-2020-8554).",
			Do:    "use a Service of type LoadBalancer with an AddressPool",
			Links: []string{"https://kep.k8s.io/5707"},
		},
		{
			ID: MeansElse, Reason: "MeansElse", Title: "A setting has another meaning in the version", Severity: SeverityWarning,
			Why: "The component goes on with it, and does something else.",
			Do:  "set the value that is meant",
		},
	}
}

// upgradesHalfDone is about what is seen in part, or done in part.
func upgradesHalfDone() []Kind {
	return []Kind{
		{
			ID: FlagsUnseen, Reason: "FlagsUnseen", Title: "Arguments of kubelets cannot be seen", Severity: SeverityWarning,
			Why: "A kubelet that is restarted with an argument that is gone does not come up again.",
			Do:  "look at the files on the machines that are named",
		},
		{
			ID: HalfUpgraded, Reason: "HalfUpgraded", Title: "An upgrade was begun and not finished", Severity: SeverityWarning,
			Why: "Control planes are of different versions.",
			Do:  "finish it: the plan has the machines that are left",
		},
		{
			ID: OwnImage, Reason: "OwnImage", Title: "The manager's image was chosen by hand", Severity: SeverityWarning,
			Why: "No profile says for which Kubernetes it is.",
			Do:  "make sure that it is for the version",
		},
		{
			ID: KubeletSkew, Reason: "KubeletSkew", Title: "A kubelet and the version are too far apart",
			Severity: SeverityError, Why: "A kubelet must not be newer than the API server, and at most three minor versions older.",
			Do:    "upgrade the kubelet first, or choose another version",
			Links: []string{"https://kubernetes.io/releases/version-skew-policy/"},
		},
		{
			ID: KubeadmPlan, Reason: "KubeadmPlan", Title: "kubeadm's own plan fails", Severity: SeverityError,
			Why: "kubeadm upgrade apply begins with the same checks.",
			Do:  "do what kubeadm says",
		},
		{
			ID: ManagerImage, Reason: "ManagerImage", Title: "The manager's image for the version cannot be had",
			Severity: SeverityError,
			Why:      "The kubelet would end the present manager, and could not start the next one.",
			Do:       "bring the image to the registry, or name another one with --image",
		},
		{
			ID: MachineLacks, Reason: "MachineLacks", Title: "A machine cannot be upgraded from here",
			Severity: SeverityError,
			Why:      "An upgrade that stops halfway leaves control planes of two versions, so it is looked for before.",
			Do:       "bring there what is missing, or leave the machine out with --skip",
		},
		{
			ID: OtherRelease, Reason: "OtherRelease", Title: "Control planes have different releases of ccmadm",
			Severity: SeverityWarning,
			Why:      "Each takes the images of its own release: they change with the machine that worked last.",
			Do:       "install the same release on all; any ccmadm apply or upgrade notes it on the machine's Node",
		},
	}
}
