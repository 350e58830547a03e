package doctor

import (
	"context"
	"errors"
	"fmt"
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

// Runs is what is known of a cluster's runs between looks, and for how long a look may watch one. The zero value has seen
// nothing, and looks once.
type Runs struct {
	renewals journal.Renewals
	patience time.Duration
}

// Diagnose is the doctor for one cluster: what it has read, and what it makes of that.
func (w *Runs) Diagnose(ctx context.Context, client kubernetes.Interface) (*diagnosis.Snapshot, *diagnosis.Diagnosis, error) {
	snapshot, err := gather(ctx, client, w)
	if err != nil {
		return nil, nil, err
	}
	return snapshot, diagnosis.Diagnose(snapshot, lintManagers, lintKubeadm), nil
}

// read adds to a snapshot whether a command could go by the journal, and which one stopped halfway.
func (w *Runs) read(whole context.Context, client kubernetes.Interface, s *diagnosis.Snapshot) {
	ctx, cancel := context.WithTimeout(whole, journalTimeout)
	defer cancel()
	runs, err := journal.Read(ctx, client)
	if err == nil {
		err = w.addUnfinished(whole, client, s, journal.Unfinished(runs))
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
	slices.SortStableFunc(s.NotSeen, func(a, b diagnosis.NotSeen) int { return strings.Compare(a.What, b.What) })
}

// addUnfinished adds a run that stopped halfway. One that renews its Lease is under way, which takes seconds to see. The error says
// that it is not known which of both a run is.
func (w *Runs) addUnfinished(ctx context.Context, client kubernetes.Interface, s *diagnosis.Snapshot, run *journal.Run) error {
	if run == nil {
		return nil
	}
	progress, err := w.renewals.UnderWay(ctx, client, run, w.patience)
	switch {
	case err != nil:
		return err
	case progress == journal.NotKnown:
		return fmt.Errorf("whether run %d, %s on %s, is under way is not known yet: its Lease has to be watched for %s",
			run.ID, run.Command, run.Machine, journal.LeaseLasts)
	case progress == journal.UnderWay:
		return nil
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
