package diagnosis

import (
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// PartJournal is what commands have done, as NotSeen names it. Who gathers reads it: this package does not know its
// form.
const PartJournal = "the cluster's journal"

// Misread is a document of ccmadm's that is there, and that this version cannot go by.
type Misread struct {
	Message string `json:"message"`
	// Next is what to run.
	Next string `json:"next"`
}

// NewMisread is one by the error of reading it, without credentials, and what to run.
func NewMisread(err error, next string) *Misread {
	return &Misread{Message: finding.Clean(redact.Text(err.Error())), Next: next}
}

// misread finds what ccmadm has written down and cannot read.
func misread(v *view) []finding.Finding {
	var list []finding.Finding
	add := func(id finding.ID, name string, m *Misread) {
		if m != nil {
			f := id.New("ConfigMap/"+v1alpha1.Namespace+"/"+name, m.Message)
			f.Next = m.Next
			list = append(list, f)
		}
	}
	add(finding.RecordUnreadable, v1alpha1.RecordName, v.RecordMisread)
	add(finding.JournalUnreadable, v1alpha1.JournalName, v.JournalMisread)
	return list
}
