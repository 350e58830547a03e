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
