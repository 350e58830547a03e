package finding

// What ccmadm has written down in the cluster: it cannot be read, or says that something is left to do.
const (
	RecordUnreadable  ID = "O1"
	JournalUnreadable ID = "O2"
	RunUnfinished     ID = "O3"
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
		{
			ID: RunUnfinished, Reason: "RunUnfinished", Title: "A ccmadm command is not finished", Severity: SeverityWarning,
			Why: "A command that changes the cluster stopped halfway, so some machines or objects have their new settings and others " +
				"have their former ones.",
			Do: "run the same command again: it continues after the steps that are done",
		},
	}
}
