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

// readJournal adds to a snapshot whether a command could go by the journal, and which one stopped halfway.
func readJournal(whole context.Context, client kubernetes.Interface, s *diagnosis.Snapshot) {
	ctx, cancel := context.WithTimeout(whole, journalTimeout)
	defer cancel()
	runs, err := journal.Read(ctx, client)
	if err == nil {
		err = addUnfinished(whole, client, s, journal.Unfinished(runs))
	}
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

// addUnfinished adds a run that stopped halfway. One that renews its Lease is under way, which takes seconds to see.
func addUnfinished(ctx context.Context, client kubernetes.Interface, s *diagnosis.Snapshot, run *journal.Run) error {
	if run == nil {
		return nil
	}
	if alive, err := journal.UnderWay(ctx, client, run); alive || err != nil {
		return err
	}
	u := &diagnosis.Unfinished{Run: run.ID, Command: run.Command, Line: run.Line, Machine: run.Machine, Began: run.Began}
	for _, step := range run.Steps {
		if step.State == journal.Done {
			u.Done++
			continue
		}
		u.Step, u.Error = "step "+step.Name, step.Error
		if step.Node != "" {
			u.Step += " of Node/" + step.Node
		}
	}
	s.Unfinished = u
	return nil
}
