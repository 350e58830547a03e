package machine

// Files of a machine that ccmadm writes, or that kubeadm writes and ccmadm reads.
const (
	// ConfigDir is ccmadm's own.
	ConfigDir = "/etc/ccmadm"
	// KubeadmConfig is the kubeadm configuration of external cloud mode.
	KubeadmConfig = ConfigDir + "/kubeadm.yaml"
	// RecordFile is what is known on this machine of its cluster.
	RecordFile = ConfigDir + "/record.yaml"
	// StateFile says what ccmadm has done here: whether kubeadm has finished, and which files are ours.
	StateFile = ConfigDir + "/machine.yaml"
	// UpgradeConfig is kubeadm's UpgradeConfiguration that another machine has sent, for as long as kubeadm runs.
	UpgradeConfig = ConfigDir + "/upgrade.yaml"
	// KubeletEnvFile holds the flags of KubeletDropIn.
	KubeletEnvFile = ConfigDir + "/kubelet.env"
	// KubeletDropIn gives the kubelet's unit its flags of external cloud mode.
	KubeletDropIn = "/etc/systemd/system/kubelet.service.d/20-ccmadm.conf"
	// KubeletUnit writes KubeletEnvFile at each boot, on machines made from an image.
	KubeletUnit = "/etc/systemd/system/ccmadm-kubelet.service"
	// CertsService renews the identity of the cloud-controller-manager, and CertsTimer starts it every day.
	CertsService = "/etc/systemd/system/ccmadm-certs.service"
	CertsTimer   = "/etc/systemd/system/ccmadm-certs.timer"
	// ManifestDir is the kubelet's directory of static pods.
	ManifestDir = "/etc/kubernetes/manifests"
	// CCMManifest is the static pod of the cloud-controller-manager.
	CCMManifest = ManifestDir + "/cloud-controller-manager.yaml"
	// EtcdManifest is the static pod of kubeadm's etcd.
	EtcdManifest = ManifestDir + "/etcd.yaml"
	// VIPManifest is the static pod that holds the control plane's own address.
	VIPManifest = ManifestDir + "/ccmadm-vip.yaml"
	// VIPDir is where it keeps who else may have it.
	VIPDir = ConfigDir + "/vip"
	// VIPMembers is the file there.
	VIPMembers = VIPDir + "/members.json"
	// VIPSysctl keeps the kernel from answering ARP for that address by itself.
	VIPSysctl = "/etc/sysctl.d/99-ccmadm-vip.conf"
	// SchedulerConf is kube-scheduler's kubeconfig for this machine's API server; it may list Nodes.
	SchedulerConf = "/etc/kubernetes/scheduler.conf"
	// CCMKubeconfig is its identity.
	CCMKubeconfig = "/etc/kubernetes/cloud-controller-manager.conf"
	// CloudConfigDir holds the provider's files for the static pod.
	CloudConfigDir = "/etc/kubernetes/cloud-config"
	// CNIConfig is what the node agent writes where it connects the machine's pods. Left behind, it would win over that of
	// another network.
	CNIConfig = "/etc/cni/net.d/10-ccmadm.conflist"
	// AdminConf is kubeadm's kubeconfig for administrators.
	AdminConf = "/etc/kubernetes/admin.conf"
	// SuperAdminConf may do everything before kubeadm has bound the administrators' group.
	SuperAdminConf = "/etc/kubernetes/super-admin.conf"
	// ControllerManagerConf is kube-controller-manager's, which asks this machine's API server.
	ControllerManagerConf = "/etc/kubernetes/controller-manager.conf"
	// KubeletConf is the kubelet's kubeconfig; it is there on a machine that is a node.
	KubeletConf = "/etc/kubernetes/kubelet.conf"
	// BootstrapConf is the kubelet's kubeconfig until it has a certificate; kubeadm join writes it, and then removes it.
	BootstrapConf = "/etc/kubernetes/bootstrap-kubelet.conf"
	// APIServerPod is the static pod of kube-apiserver.
	APIServerPod = ManifestDir + "/kube-apiserver.yaml"
	// KubeletConfig is the kubelet's configuration file.
	KubeletConfig = "/var/lib/kubelet/config.yaml"
	// KubeadmFlags is the file of kubelet flags that kubeadm writes.
	KubeadmFlags = "/var/lib/kubelet/kubeadm-flags.env"
	// PKIDir is kubeadm's default certificatesDir.
	PKIDir = "/etc/kubernetes/pki"
	// DMIDir is where the kernel shows what the firmware says.
	DMIDir = "/sys/class/dmi/id"
)
