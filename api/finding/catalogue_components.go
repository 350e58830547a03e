package finding

// Deviations of a cluster from what kubeadm's clusters consist of (package doctor/components).
const (
	ComponentMissing       ID = "Q1"
	ComponentUnready       ID = "Q2"
	ComponentWithoutLeader ID = "Q3"
	ComponentsDiffer       ID = "Q4"
	KindMissing            ID = "Q5"
	EtcdFull               ID = "Q6"
)

// components is about the parts of a cluster.
func components() []Kind {
	return []Kind{
		{
			ID: ComponentMissing, Reason: "ComponentMissing", Title: "Component does not run where it belongs", Severity: SeverityError,
			Why: "kubeadm runs the control plane as static pods on each control plane, and kube-proxy on each Node.",
			Do:  "correct the workload, or what refuses its pods; write a static pod's manifest again",
		},
		{
			ID: ComponentUnready, Reason: "ComponentUnready", Title: "Pod of kube-system is not ready", Severity: SeverityError,
			Why: "It is not ready for more than a minute, or fails each time that it starts.",
			Do:  "correct the cause in the message: the last line of its log, its image, or its Events",
		},
		{
			ID: ComponentWithoutLeader, Reason: "ComponentWithoutLeader", Severity: SeverityError,
			Title: "No instance of the component holds its Lease",
			Why:   "Its pods are ready, and none is active: they do not reach the API server, or may not write the Lease.",
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
			Do:  "apply the definition again, then the objects from a backup",
		},
		{
			ID: EtcdFull, Reason: "EtcdFull", Title: "etcd has no space left and refuses writes", Severity: SeverityError,
			Why:   "The database has reached --quota-backend-bytes. Leases cannot be renewed, so every leader and every Node looks silent.",
			Do:    "compact and defragment each member, then disarm the alarm; find out what writes so much",
			Links: []string{"https://etcd.io/docs/v3.6/op-guide/maintenance/#space-quota"},
		},
	}
}
