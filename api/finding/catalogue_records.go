package finding

// What ccmadm has written down in the cluster, and cannot read.
const (
	RecordUnreadable  ID = "O1"
	JournalUnreadable ID = "O2"
)

func records() []Kind {
	return []Kind{
		{
			ID: RecordUnreadable, Reason: "RecordUnreadable", Title: "Cluster record cannot be read", Severity: SeverityWarning,
			Why: "ConfigMap ccmadm-config holds the cluster's settings, and it was written by a newer version or edited by hand, so " +
				"machines that join and commands that change the cluster are refused.",
			Do: "use the ccmadm version that wrote it, or correct the edit",
		},
		{
			ID: JournalUnreadable, Reason: "JournalUnreadable", Title: "Journal was edited, or cannot be read", Severity: SeverityWarning,
			Why: "ConfigMap ccmadm-journal records what commands have done, and after an edit it may be wrong, so commands that " +
				"change the cluster are refused.",
			Do: "check it, and delete it: the next command starts a new one; if a newer version wrote it, use that version",
		},
	}
}
