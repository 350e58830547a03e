package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// journalTimeout is for how long a journal is asked for: to read one has the patience of a command that restarts API
// servers.
const journalTimeout = 5 * time.Second

// readJournal adds to a snapshot whether a command could go by the journal.
func readJournal(ctx context.Context, client kubernetes.Interface, s *diagnosis.Snapshot) {
	ctx, cancel := context.WithTimeout(ctx, journalTimeout)
	defer cancel()
	_, err := journal.Read(ctx, client)
	if err == nil {
		return
	}
	var known *finding.Error
	if errors.As(err, &known) && known.Code == finding.ExitRefused {
		s.JournalMisread = diagnosis.NewMisread(err, "unless a newer ccmadm has written the journal: kubectl -n "+
			v1alpha1.Namespace+" delete configmap "+v1alpha1.JournalName)
		return
	}
	s.NotSeen = append(s.NotSeen, diagnosis.Unseen(diagnosis.PartJournal, err))
	slices.SortFunc(s.NotSeen, func(a, b diagnosis.NotSeen) int { return strings.Compare(a.What, b.What) })
}
