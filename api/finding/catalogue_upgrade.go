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
