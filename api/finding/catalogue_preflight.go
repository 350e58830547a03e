package finding

// The preflight checks. Their reasons are the names that --ignore-preflight-errors takes.
const (
	CheckProvider       ID = "P1"
	CheckPrivileged     ID = "P2"
	CheckKubeadmVersion ID = "P3"
	CheckKubeletInUse   ID = "P4"
	CheckKubeletFlags   ID = "P5"
	CheckKubeadmConfig  ID = "P6"
	CheckNodeIP         ID = "P7"
	CheckWritable       ID = "P8"
	CheckNodeName       ID = "P9"
	CheckNodeAddress    ID = "P10"
	CheckCloudConfig    ID = "P11"
	CheckStaticPod      ID = "P12"
	CheckManifests      ID = "P13"
	CheckDiscovery      ID = "P14"
	CheckClusterRecord  ID = "P15"
	CheckNodeTaints     ID = "P16"
	CheckExternalCA     ID = "P17"
	CheckProviderID     ID = "P18"
	CheckVIP            ID = "P19"
)

// preflight is about what must hold before anything is changed.
func preflight() []Kind {
	return []Kind{
		{
			ID: CheckProvider, Reason: "Provider", Title: "The provider cannot be used", Severity: SeverityError,
			Why: "There is no such profile, or the machine's DMI data names none.",
			Do:  "name one with --provider, or give a profile with --profile",
		},
		{
			ID: CheckPrivileged, Reason: "IsPrivilegedUser", Title: "Not root", Severity: SeverityError,
			Why: "Files of the machine and the kubelet are changed.",
			Do:  "run it with sudo",
		},
		{
			ID: CheckKubeadmVersion, Reason: "KubeadmVersion", Title: "kubeadm cannot be used", Severity: SeverityError,
			Why: "It is missing, or of a version that ccmadm does not know.",
			Do:  "install kubeadm of a supported version",
		},
		{
			ID: CheckKubeletInUse, Reason: "KubeletInUse", Title: "A kubelet already serves a cluster here",
			Severity: SeverityError,
			Why:      "Its flags and its Node would change under it.",
			Do:       "reset the machine first, or use `ccmadm status`",
		},
		{
			ID: CheckKubeletFlags, Reason: "KubeletFlags", Title: "A file contradicts the kubelet's flags",
			Severity: SeverityError,
			Why:      "Several files feed the kubelet's command line, and the last one counts.",
			Do:       "remove the argument from the file that is named",
		},
		{
			ID: CheckKubeadmConfig, Reason: "KubeadmConfig", Title: "The kubeadm configuration cannot be used",
			Severity: SeverityError,
			Why:      "kubeadm or ccmadm would refuse it half way.",
			Do:       "correct the file where the message says",
		},
	}
}

// preflightOfTheNode is about this machine as a node, and what it is to run.
func preflightOfTheNode() []Kind {
	return []Kind{
		{
			ID: CheckNodeIP, Reason: "NodeIP", Title: "The node IP cannot be used", Severity: SeverityError,
			Why: "The kubelet would publish an address that is none of this machine's.",
			Do:  "give --node-ip an address of this machine",
		},
		{
			ID: CheckWritable, Reason: "Writable", Title: "A file cannot be written", Severity: SeverityError,
			Why: "Half of the files would be written, and then it would end.",
			Do:  "free the disk, or remount it writable",
		},
		{
			ID: CheckNodeName, Reason: "NodeName", Title: "The node's name does not fit the provider, or is another machine's",
			Severity: SeverityError,
			Why:      "The provider looks a machine up by its Node's name, and two machines cannot be one Node.",
			Do: "give --node-name what the provider expects; where a Node of that name is there already: another name, " +
				"or, if its machine is gone, `kubectl delete node NAME`",
		},
		{
			ID: CheckNodeAddress, Reason: "NodeAddress", Title: "The cloud may not list the node's address",
			Severity: SeverityError,
			Why:      "A cloud-controller-manager leaves a Node alone whose address the cloud does not list.",
			Do:       "give --node-ip an address that the cloud knows",
		},
		{
			ID: CheckCloudConfig, Reason: "CloudConfig", Title: "The provider's configuration is missing or wrong",
			Severity: SeverityError,
			Why:      "The cloud-controller-manager would not start.",
			Do:       "give --cloud-config and --credential what the message names",
		},
		{
			ID: CheckStaticPod, Reason: "StaticPodManifest", Title: "The static pod's manifest was edited by hand",
			Severity: SeverityError,
			Why:      "The edit would be lost.",
			Do:       "take it over with --force, or put it into the CloudConfiguration",
		},
		{
			ID: CheckManifests, Reason: "Manifests", Title: "The manifests cannot be rendered", Severity: SeverityError,
			Why: "Profile and configuration do not fit together.",
			Do:  "do what the message says",
		},
		{
			ID: CheckDiscovery, Reason: "Discovery", Title: "The cluster cannot be found", Severity: SeverityError,
			Why: "Token, hash or address are wrong, or the API server cannot be reached.",
			Do:  "make a new join command: `ccmadm init phase show-join-command`",
		},
		{
			ID:       CheckClusterRecord,
			Reason:   "ClusterRecord",
			Title:    "The machine has a cluster with other settings",
			Severity: SeverityError,
			Why:      "kubeadm has finished here. Other settings would leave a cluster that agrees with neither.",
			Do:       "leave out what differs from the cluster's record",
		},
		{
			ID: CheckNodeTaints, Reason: "NodeTaints", Title: "The kubelet would set its taint twice", Severity: SeverityError,
			Why: "In external mode it sets the taint itself, and the API refuses a Node that has it twice: it never registers.",
			Do:  "remove the taint from the kubelet's configuration",
		},
		{
			ID:       CheckExternalCA,
			Reason:   "ExternalCA",
			Title:    "Nobody can sign the static pod's identity",
			Severity: SeverityError,
			Why:      "The CA's key is not on this machine.",
			Do:       "put a kubeconfig there, or run the cloud-controller-manager as a DaemonSet",
		},
		{
			ID: CheckProviderID, Reason: "ProviderID", Title: "The kubelet needs a provider ID", Severity: SeverityError,
			Why: "The provider finds a machine by nothing else.",
			Do:  "give the kubelet --provider-id",
		},
		{
			ID: CheckVIP, Reason: "ControlPlaneVIP", Title: "The control plane's address is somebody's", Severity: SeverityError,
			Why: "Packets for the API server would go to that machine, or now here, now there.",
			Do:  "take an address that nobody answers for, in a subnet of this machine or, with controlPlaneVIP.bgp, in none",
		},
	}
}
