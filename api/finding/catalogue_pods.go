package finding

// What keeps the pods of a cloud-controller-manager from running.
const (
	NoPod          ID = "W20"
	PodTerminating ID = "W21"
	PodPending     ID = "W22"
	PodTerminated  ID = "W23"
	PodWaiting     ID = "W24"
	ImagePull      ID = "W25"
	CrashLoop      ID = "W26"
	NoReplicas     ID = "W27"
	FileMissing    ID = "W28"
)

// waitingForPods is about pods of a manager that do not run.
func waitingForPods() []Kind {
	return []Kind{
		{
			ID: NoPod, Reason: "NoPod", Title: "cloud-controller-manager has no pod", Severity: SeverityError,
			Why: "Without a cloud-controller-manager no Node is initialized.",
			Do:  "install a cloud-controller-manager, or find out why the kubelet does not run its static pod",
		},
		{
			ID: PodTerminating, Reason: "PodTerminating", Severity: SeverityError,
			Title: "Pod of the cloud-controller-manager is Terminating",
			Why:   "No Node is initialized until another pod runs.",
			Do:    "wait, or find out what blocks the deletion",
		},
		{
			ID: PodPending, Reason: "PodPending", Title: "Pod of the cloud-controller-manager is Pending", Severity: SeverityError,
			Why: "The scheduler finds no Node for the pod, or the kubelet has not started it.",
			Do:  "check the pod's Events; for a missing toleration see rules B1 to B3 of `ccmadm lint`",
		},
		{
			ID: PodTerminated, Reason: "PodTerminated", Severity: SeverityError,
			Title: "Pod of the cloud-controller-manager has terminated",
			Why:   "Without a cloud-controller-manager no Node is initialized.",
			Do:    "read the last lines of its log",
		},
		{
			ID: PodWaiting, Reason: "PodWaiting", Title: "Container of the cloud-controller-manager is waiting", Severity: SeverityError,
			Why: "The kubelet cannot start the container, because something is missing.",
			Do:  "check the pod's Events",
		},
		{
			ID: ImagePull, Reason: "ImagePull", Title: "Image of the cloud-controller-manager cannot be pulled", Severity: SeverityError,
			Why: "The registry does not have the image, requires credentials, or is not reachable from the machine.",
			Do:  "check the image's name; on an air-gapped machine, import the image",
		},
		{
			ID: CrashLoop, Reason: "CrashLoop", Title: "cloud-controller-manager is in CrashLoopBackOff", Severity: SeverityError,
			Why: "It starts and exits; the last line of its log usually shows why.",
			Do:  "correct the cause in the last line of its log",
		},
		{
			ID: NoReplicas, Reason: "NoReplicas", Title: "cloud-controller-manager is scaled to zero", Severity: SeverityError,
			Why: "A Deployment with zero replicas has no pods, and no Node is initialized.",
			Do:  "scale it up: kubectl -n NAMESPACE scale deployment/NAME --replicas=1",
		},
		{
			ID: FileMissing, Reason: "FileMissing", Severity: SeverityError,
			Title: "Host file that the cloud-controller-manager mounts is missing",
			Why:   "The kubelet does not start a container whose hostPath does not have the type that the pod requires.",
			Do:    "put the file back; `ccmadm apply` writes the kubeconfig of a static pod again",
		},
	}
}

// Deviations of a cluster from what kubeadm's clusters consist of (package doctor/components).
const (
	ComponentMissing       ID = "Q1"
	ComponentUnready       ID = "Q2"
	ComponentWithoutLeader ID = "Q3"
	ComponentsDiffer       ID = "Q4"
	KindMissing            ID = "Q5"
	EtcdFull               ID = "Q6"
	NodePressure           ID = "Q7"
	ComponentForbidden     ID = "Q8"
	WriteRefused           ID = "Q9"
	ExtensionDown          ID = "Q10"
	ServiceWithoutPods     ID = "Q11"
	ConfigurationMissing   ID = "Q12"
	SandboxFails           ID = "Q13"
)

// components is about the parts of a cluster.
func components() []Kind {
	return []Kind{
		{
			ID: ComponentMissing, Reason: "ComponentMissing", Title: "Component does not run where it belongs", Severity: SeverityError,
			Why: "kubeadm runs the control plane as static pods on each control plane, and kube-proxy on each Node.",
			Do: "correct the workload, or the webhook or quota that rejects its pods; `kubeadm init phase` writes a missing static pod " +
				"manifest again",
		},
		{
			ID: ComponentUnready, Reason: "ComponentUnready", Title: "Pod of kube-system or of the CNI plugin is not ready, or restarts", Severity: SeverityError,
			Why: "It is not ready for more than a minute, or fails again and again.",
			Do:  "correct the cause in the message: the last line of its log, its image, or its Events",
		},
		{
			ID: ComponentWithoutLeader, Reason: "ComponentWithoutLeader", Severity: SeverityError,
			Title: "No instance of the component holds its Lease",
			Why:   "Its pods are ready, and none is the leader: they cannot reach the API server, or are not allowed to write the Lease.",
			Do:    "read the log of its pods",
		},
		{
			ID: ComponentsDiffer, Reason: "ComponentsDiffer", Title: "Control planes run with different settings", Severity: SeverityError,
			Why: "Which answer a client gets depends on the API server, or the controller manager, that is active.",
			Do:  "give all control planes the value of kubeadm's ClusterConfiguration",
		},
		{
			ID: KindMissing, Reason: "KindMissing", Title: "CustomResourceDefinition of ccmadm is missing", Severity: SeverityError,
			Why: "Objects of the kind were deleted with it, and the onprem provider and its agents do not work without.",
			Do:  "run `ccmadm apply --force` to restore the definition, then apply the objects from a backup",
		},
		{
			ID: EtcdFull, Reason: "EtcdFull", Title: "etcd has no space left and refuses writes", Severity: SeverityError,
			Why:   "The database has reached --quota-backend-bytes. Leases cannot be renewed, so no leader and no kubelet seems to report.",
			Do:    "compact and defragment each member, then disarm the alarm; then find the client that writes so much",
			Links: []string{"https://etcd.io/docs/v3.6/op-guide/maintenance/#space-quota"},
		},
		{
			ID: NodePressure, Reason: "NodePressure", Title: "Node is short of disk, memory or process IDs", Severity: SeverityError,
			Why: "The kubelet evicts pods, and the scheduler places none on the Node, until the condition is False.",
			Do: "free what the condition names: `crictl rmi --prune` removes images that no container uses; give pods that need much memory " +
				"limits, or machines of their own",
			Links: []string{"https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/"},
		},
		{
			ID: ComponentForbidden, Reason: "ComponentForbidden", Severity: SeverityError,
			Title: "Component is not allowed to do what it needs",
			Why: "The API server answers its requests with Forbidden. Running components continue with cached data; " +
				"components that start do not work.",
			Do:    "restore the role and its binding: kube-apiserver writes its default ones when it starts",
			Links: []string{"https://kubernetes.io/docs/reference/access-authn-authz/rbac/#auto-reconciliation"},
		},
		{
			ID: WriteRefused, Reason: "WriteRefused", Title: "Admission refuses a write that the cluster depends on", Severity: SeverityError,
			Why: "The request was refused, or a dry run of it, so pods, Leases or Nodes cannot be made or updated.",
			Do: "correct what refuses: the policy, the quota, the LimitRange, the PriorityClass that is missing, the namespace's labels, or the webhook, which should exempt kube-system or have " +
				"failurePolicy Ignore",
			Links: []string{"https://kubernetes.io/docs/concepts/cluster-administration/admission-webhooks-good-practices/"},
		},
		{
			ID: ExtensionDown, Reason: "ExtensionDown", Title: "APIService is not available", Severity: SeverityWarning,
			Why: "Clients that list all resources wait for it, and a deleted namespace stays until it answers.",
			Do:  "start the pods of its Service, or delete the APIService if what served it was removed",
		},
		{
			ID: ServiceWithoutPods, Reason: "ServiceWithoutPods", Title: "Service of the cluster does not lead to its pods", Severity: SeverityError,
			Why: "Its pods run, and clients of its address get no answer.",
			Do:  "give the Service the selector, the ports and the address that kubeadm wrote",
		},
		{
			ID: ConfigurationMissing, Reason: "ConfigurationMissing", Title: "Configuration in the cluster cannot be used", Severity: SeverityError,
			Why: "What reads it when it starts, such as kubeadm join, kube-proxy or CoreDNS, does not work then.",
			Do:  "restore the ConfigMap from a backup; without one, phases of kubeadm write it from a configuration of the cluster as it is today",
		},
		{
			ID: SandboxFails, Reason: "SandboxFails", Title: "Node cannot start pods", Severity: SeverityError,
			Why: "The container runtime or the CNI plugin refuses the sandbox of a pod, its network, before any image is pulled. The Node is Ready, " +
				"and the scheduler places more pods on it.",
			Do: "correct what the message names: the CNI plugin or its configuration on the Node, its free addresses, or the container runtime",
		},
	}
}
