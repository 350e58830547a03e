package finding

// What a rehearsal finds (package doctor/rehearsal).
const (
	WouldBeDeleted ID = "E1"
	NotRecognized  ID = "E2"
	SwitchedOff    ID = "E3"
	CloudUnclear   ID = "E4"
	NoRehearsal    ID = "E5"
	RehearsalEnded ID = "E6"
)

// rehearsal is about what another cloud-controller-manager would do to Nodes.
func rehearsal() []Kind {
	return []Kind{
		{
			ID: WouldBeDeleted, Reason: "WouldBeDeleted", Title: "Node would be deleted", Severity: SeverityError,
			Why: "With these credentials and this configuration the cloud has no such machine, so the lifecycle controller deletes " +
				"the Node once its kubelet stops posting status.",
			Do: "check region, project and credentials; if the machine is in another cloud, do not run this cloud-controller-manager here",
		},
		{
			ID: NotRecognized, Reason: "NotRecognized", Title: "Node would not be initialized", Severity: SeverityError,
			Why: "The provider returns no machine for the Node, so the node controller would leave a new Node tainted.",
			Do: "correct the cause in the message: usually the credentials are wrong, or the Node's name differs from the machine's " +
				"name in the cloud",
		},
		{
			ID: SwitchedOff, Reason: "SwitchedOff", Title: "Cloud reports that the machine is off", Severity: SeverityWarning,
			Why: "While its kubelet posts no status, the Node would get the shutdown taint.",
			Do:  "if the machine runs, check that the Node's provider ID is this machine's",
		},
		{
			ID: CloudUnclear, Reason: "CloudUnclear", Title: "Cloud look-up of the machine fails", Severity: SeverityError,
			Why: "The provider returns an error each time the lifecycle controller checks whether the machine exists.",
			Do:  "correct the cause in the message; a permission of the cloud may be missing",
		},
		{
			ID: NoRehearsal, Reason: "NoRehearsal", Title: "cloud-controller-manager did nothing with the Node", Severity: SeverityError,
			Why: "Its effect on the Node is unknown: it may not have upstream's controllers, or it was too slow.",
			Do:  "read its log with --log, or give it more time with --timeout",
		},
		{
			ID: RehearsalEnded, Reason: "RehearsalEnded", Title: "cloud-controller-manager cannot be rehearsed", Severity: SeverityError,
			Why: "The program exited, or its controller did not start, before it had answered for any Node.",
			Do:  "correct the cause in its message; --log shows its whole log",
		},
	}
}
