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
			ID: WouldBeDeleted, Reason: "WouldBeDeleted", Title: "The Node would be deleted", Severity: SeverityError,
			Why: "The cloud, asked with these credentials and this configuration, has no such machine. The lifecycle controller " +
				"deletes the Node once its kubelet is silent.",
			Do: "check region, project and credentials; if the machine is in another cloud, do not run this manager here",
		},
		{
			ID: NotRecognized, Reason: "NotRecognized", Title: "The Node would not be initialized", Severity: SeverityError,
			Why: "The node controller gets no answer about it from the provider, and would leave a new Node tainted.",
			Do:  "do what the message says; most often it is the credentials, or the Node has not the name that the cloud has",
		},
		{
			ID: SwitchedOff, Reason: "SwitchedOff", Title: "The cloud says that the machine is off", Severity: SeverityWarning,
			Why: "The Node would get the taint of a machine that is switched off, while its kubelet is silent.",
			Do:  "if the machine runs, check that the Node's provider ID is this machine's",
		},
		{
			ID: CloudUnclear, Reason: "CloudUnclear", Title: "The cloud cannot be asked for the machine",
			Severity: SeverityError,
			Why:      "Every time the lifecycle controller asks whether the machine is there, the provider gives an error.",
			Do:       "do what the message says; a permission of the cloud may be missing",
		},
		{
			ID: NoRehearsal, Reason: "NoRehearsal", Title: "The manager did nothing with the Node", Severity: SeverityError,
			Why: "Nothing is known of what it would do: it may not have upstream's controllers, or was too slow.",
			Do:  "look at its log with --log; give it more time with --timeout",
		},
		{
			ID: RehearsalEnded, Reason: "RehearsalEnded", Title: "The manager cannot be rehearsed", Severity: SeverityError,
			Why: "The program ended, or its controller does not start, before any Node had an answer.",
			Do:  "do what its message says; --log shows all that it said",
		},
	}
}
