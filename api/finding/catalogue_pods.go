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
			ID: NoPod, Reason: "NoPod", Title: "There is no cloud-controller-manager", Severity: SeverityError,
			Why: "Nobody initializes nodes.",
			Do:  "install one, or find out why the kubelet does not run its static pod",
		},
		{
			ID: PodTerminating, Reason: "PodTerminating", Title: "The manager's pod is being deleted", Severity: SeverityError,
			Why: "Nobody initializes nodes until another one runs.",
			Do:  "wait, or find out what holds it",
		},
		{
			ID: PodPending, Reason: "PodPending", Title: "The manager's pod does not start", Severity: SeverityError,
			Why: "The scheduler finds no node for it, or the kubelet has not started it.",
			Do:  "look at the pod's events; a missing toleration is rules B1 to B3 of `ccmadm lint`",
		},
		{
			ID: PodTerminated, Reason: "PodTerminated", Title: "The manager has stopped", Severity: SeverityError,
			Why: "Nobody initializes nodes.",
			Do:  "look at the last lines of its log",
		},
		{
			ID: PodWaiting, Reason: "PodWaiting", Title: "The manager's container waits", Severity: SeverityError,
			Why: "The kubelet lacks something to start it with.",
			Do:  "look at the pod's events",
		},
		{
			ID: ImagePull, Reason: "ImagePull", Title: "The manager's image cannot be pulled", Severity: SeverityError,
			Why: "The registry does not have it, asks for credentials, or is not reached from the machine.",
			Do:  "check the image's name; on an air-gapped machine, import it",
		},
		{
			ID: CrashLoop, Reason: "CrashLoop", Title: "The manager ends again and again", Severity: SeverityError,
			Why: "It starts and fails; its last line mostly says why.",
			Do:  "do what its last line says",
		},
		{
			ID: NoReplicas, Reason: "NoReplicas", Title: "The manager is scaled to nothing", Severity: SeverityError,
			Why: "A Deployment of no replicas has no pods, and nobody initializes nodes.",
			Do:  "scale it up: kubectl -n NAMESPACE scale deployment/NAME --replicas=1",
		},
		{
			ID: FileMissing, Reason: "FileMissing", Title: "A file of the machine that the manager mounts is missing", Severity: SeverityError,
			Why: "The kubelet does not start a container whose hostPath is not what its type says.",
			Do:  "put the file back; `ccmadm apply` writes the kubeconfig of a static pod again",
		},
	}
}
