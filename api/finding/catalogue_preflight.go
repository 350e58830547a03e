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
	CheckImages         ID = "P20"
)

// preflight is about what must hold before anything is changed.
func preflight() []Kind {
	return []Kind{
		{
			ID: CheckProvider, Reason: "Provider", Title: "Provider cannot be used", Severity: SeverityError,
			Why: "There is no such profile, or the machine's DMI data identifies no provider.",
			Do:  "set --provider, or pass a profile with --profile",
		},
		{
			ID: CheckPrivileged, Reason: "IsPrivilegedUser", Title: "ccmadm does not run as root", Severity: SeverityError,
			Why: "The command changes files of the machine and the kubelet.",
			Do:  "run it with sudo",
		},
		{
			ID: CheckKubeadmVersion, Reason: "KubeadmVersion", Title: "kubeadm is missing or not supported", Severity: SeverityError,
			Why: "kubeadm is not installed, or ccmadm does not support its version.",
			Do:  "install a supported version of kubeadm",
		},
		{
			ID: CheckKubeletInUse, Reason: "KubeletInUse", Title: "Kubelet already serves a cluster", Severity: SeverityError,
			Why: "The flags and the Node of a running kubelet would change.",
			Do:  "run `ccmadm reset` first, if the machine is to leave that cluster; otherwise it needs no init or join",
		},
		{
			ID: CheckKubeletFlags, Reason: "KubeletFlags", Title: "File overrides the kubelet's flags", Severity: SeverityError,
			Why: "The kubelet's command line is built from several files, and the last one wins.",
			Do:  "remove the argument from the file that the message names",
		},
		{
			ID: CheckKubeadmConfig, Reason: "KubeadmConfig", Title: "kubeadm configuration is invalid", Severity: SeverityError,
			Why: "kubeadm or ccmadm would refuse it after a part of the work is done.",
			Do:  "correct the file at the place that the message names",
		},
	}
}

// preflightOfTheNode is about this machine as a node, and what it is to run.
func preflightOfTheNode() []Kind {
	return []Kind{
		{
			ID: CheckNodeIP, Reason: "NodeIP", Title: "Node IP cannot be used", Severity: SeverityError,
			Why: "The kubelet would publish an address that this machine does not have.",
			Do:  "set --node-ip to an address of this machine",
		},
		{
			ID: CheckWritable, Reason: "Writable", Title: "File is not writable", Severity: SeverityError,
			Why: "Half of the files would be written before the command fails.",
			Do:  "free space on the disk, or remount the file system writable",
		},
		{
			ID: CheckNodeName, Reason: "NodeName", Severity: SeverityError,
			Title: "Node name does not fit the provider, or belongs to another machine",
			Why:   "The provider looks up a machine by its Node's name, and two machines cannot be one Node.",
			Do: "set --node-name to the name that the provider expects; if a Node of that name exists, use another name or, if its " +
				"machine is gone, run `kubectl delete node NAME`",
		},
		{
			ID: CheckNodeAddress, Reason: "NodeAddress", Title: "Node address may be unknown to the cloud", Severity: SeverityError,
			Why: "A cloud-controller-manager does not initialize a Node whose address the cloud does not list.",
			Do:  "set --node-ip to an address that the cloud lists",
		},
		{
			ID: CheckCloudConfig, Reason: "CloudConfig", Title: "Provider configuration is missing or invalid", Severity: SeverityError,
			Why: "The cloud-controller-manager would not start.",
			Do:  "set --cloud-config and --credential as the message names",
		},
		{
			ID: CheckStaticPod, Reason: "StaticPodManifest", Title: "Static pod manifest was edited by hand", Severity: SeverityError,
			Why: "The edit would be lost.",
			Do:  "put the edit into the CloudConfiguration, or let --force replace the file",
		},
		{
			ID: CheckManifests, Reason: "Manifests", Title: "Manifests cannot be rendered", Severity: SeverityError,
			Why: "Profile and configuration do not fit together.",
			Do:  "correct the cause that the message names",
		},
		{
			ID: CheckDiscovery, Reason: "Discovery", Title: "Cluster discovery fails", Severity: SeverityError,
			Why: "The token, the hash or the address is wrong, or the API server is unreachable.",
			Do:  "create a new join command: `ccmadm init phase show-join-command`",
		},
		{
			ID: CheckClusterRecord, Reason: "ClusterRecord", Title: "Machine has a cluster with other settings", Severity: SeverityError,
			Why: "kubeadm has finished here, and other settings would leave a cluster that matches neither.",
			Do:  "remove the settings that differ from the cluster's record",
		},
		{
			ID: CheckNodeTaints, Reason: "NodeTaints", Title: "Kubelet would set its taint twice", Severity: SeverityError,
			Why: "In external mode the kubelet sets the taint itself, and the API server refuses a Node that has it twice, so the " +
				"Node never registers.",
			Do: "remove the taint from the kubelet's configuration",
		},
		{
			ID: CheckExternalCA, Reason: "ExternalCA", Severity: SeverityError,
			Title: "Key to sign the static pod's certificate is missing",
			Why:   "The CA's key is not on this machine.",
			Do:    "put a kubeconfig at /etc/kubernetes/cloud-controller-manager.conf, or set --mode DaemonSet",
		},
		{
			ID: CheckProviderID, Reason: "ProviderID", Title: "Kubelet has no provider ID", Severity: SeverityError,
			Why: "The provider identifies a machine by its provider ID only.",
			Do:  "set the kubelet's --provider-id",
		},
		{
			ID: CheckVIP, Reason: "ControlPlaneVIP", Title: "Control plane address is in use", Severity: SeverityError,
			Why: "Packets for the API server would reach the other machine, or alternate between the two.",
			Do:  "choose an address that no machine answers for, in a subnet of this machine or, with controlPlaneVIP.bgp, in none",
		},
		{
			ID: CheckImages, Reason: "Images", Title: "Image of ccmadm cannot be pulled", Severity: SeverityError,
			Why: "The pods would stay in ErrImagePull. If ccmadm was built from source, no registry has images of its version.",
			Do:  "import an archive with `ccmadm images load FILE`, name a mirror with --image-repository, or an image with --image",
		},
	}
}
