package finding

// What ccmadm has written down in the cluster, and cannot read.
const (
	RecordUnreadable  ID = "O1"
	JournalUnreadable ID = "O2"
)

func records() []Kind {
	return []Kind{
		{
			ID: RecordUnreadable, Reason: "RecordUnreadable", Title: "The cluster's record cannot be read", Severity: SeverityWarning,
			Why: "ConfigMap ccmadm-config says what ccmadm has set the cluster up with. A newer version has written it, or somebody " +
				"has edited it: machines that join and commands that change the cluster go by it, and are refused.",
			Do: "use the ccmadm that has written it, or correct what was edited",
		},
		{
			ID: JournalUnreadable, Reason: "JournalUnreadable", Title: "The journal was edited, or cannot be read", Severity: SeverityWarning,
			Why: "ConfigMap ccmadm-journal says what commands have done. What it says after an edit may not be so: commands that " +
				"change the cluster are refused.",
			Do: "look at it, and delete it: the next command begins a new one. Of a newer version's, use that version",
		},
	}
}
