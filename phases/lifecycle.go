package phases

import (
	"context"
	"slices"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// recordedLifecycle is what the record says of it, and whether it is off for the time of an adoption alone. That outlives
// other changes, but not what a user says.
func recordedLifecycle(d *Data, s *Settings) (to v1alpha1.Lifecycle, held *bool) {
	switch {
	case s.Lifecycle == v1alpha1.LifecycleOff && d.Said.Lifecycle == "":
		return s.Lifecycle, s.LifecycleHeld
	case s.Lifecycle == v1alpha1.LifecycleOff:
		return s.Lifecycle, new(false)
	case d.holdLifecycle:
		return v1alpha1.LifecycleOff, new(true)
	}
	return s.Lifecycle, nil
}

// lifecycleHeld tells whether an adoption holds the lifecycle of a cluster that lives. A record of before it said so has
// it from the journal.
func lifecycleHeld(ctx context.Context, d *Data, rec *v1alpha1.Record) (*bool, error) {
	if rec == nil {
		return nil, nil
	}
	if !d.Living || rec.LifecycleHeld != nil || rec.Configuration.Lifecycle != v1alpha1.LifecycleOff {
		return rec.LifecycleHeld, nil
	}
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return nil, err
	}
	return new(heldBefore(runs)), nil
}

// heldBefore tells whether it was a run of adopt that has switched the lifecycle off: the newest of these runs that has
// not found it off. What nobody knows any more counts as the user's: no Node is lost by it.
func heldBefore(runs []journal.Run) bool {
	for _, run := range slices.Backward(runs) {
		if run.Shortened {
			return false
		}
		if run.Before == "" {
			return adoptionOf(&run) == adoptCommand
		}
		before, err := v1alpha1.DecodeRecord("the record of before the run", []byte(run.Before))
		switch {
		case err != nil:
			return false
		case before.Configuration.Lifecycle != v1alpha1.LifecycleOff:
			return adoptionOf(&run) == adoptCommand
		case before.LifecycleHeld != nil:
			return *before.LifecycleHeld
		}
	}
	return false
}
