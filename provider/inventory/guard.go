package inventory

import (
	"time"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
)

// MinLeading is for how long a process must have led before it may delete: two
// that take turns would otherwise forget what they saw.
const MinLeading = time.Minute

// Evidence is all that is known when it is asked whether a machine is gone.
type Evidence struct {
	OurSite bool // the Node's provider ID is ours, and of the inventory's site

	UpToDate bool          // the latest reading was good
	Age      time.Duration // since that reading
	Readings int           // good ones since the start

	Machine      *config.Machine // nil: not listed
	WasListed    bool            // the Node was initialized as a listed machine
	Renamed      bool            // the inventory gives the machine another name, and the Node of that name is Ready
	MissingIn    int             // good readings in a row
	MissingSince time.Duration

	ControlPlane bool
	Leading      time.Duration
	Silent       time.Duration // since its kubelet was last heard of

	Nodes, Candidates int // all Nodes; those for which all but the budget says gone
	Deleted           int // in the period of the budget
}

// Bounds are the settings of the guard that no inventory should have a say in.
type Bounds struct {
	MaxAge  time.Duration // of the inventory
	Silence time.Duration // of a kubelet
}

// Guard returns the first rule that keeps the Node, in the order of the catalogue; "" means that none does. Each of
// them alone is enough.
func Guard(p config.InventoryPolicy, b Bounds, e Evidence) finding.ID {
	if r := GuardIdentity(p, b, e); r != "" {
		return r
	}
	if e.Silent < b.Silence {
		return finding.StillTalking
	}
	if e.Candidates > max(1, e.Nodes*p.DeletionBudget.MaxPercent/100) {
		return finding.TooManyAtOnce
	}
	if e.Deleted >= p.DeletionBudget.Max {
		return finding.BudgetExhausted
	}
	return ""
}

// GuardIdentity is the part of Guard that needs no request and no memory of other
// Nodes: most questions end here.
func GuardIdentity(p config.InventoryPolicy, b Bounds, e Evidence) finding.ID {
	switch {
	case !e.OurSite:
		return finding.NotOurs
	case !e.UpToDate || e.Age > b.MaxAge || e.Readings < p.Absence.MinSnapshots:
		return finding.NotUpToDate
	case !Gone(p, e):
		return finding.NotGone
	case e.Machine != nil && e.Machine.Protected:
		return finding.Protected
	case e.ControlPlane && (e.Machine == nil || !e.Machine.Force):
		return finding.ControlPlane
	case e.Leading < MinLeading:
		return finding.NewLeader
	}
	return ""
}

// Gone reports whether the inventory lists the machine, or its old name, as gone. A Node
// that was never listed, but adopted, is not missing from it.
func Gone(p config.InventoryPolicy, e Evidence) bool {
	switch {
	case p.Deletion == config.DeletionNever || p.Deletion == "":
		return false
	case e.Machine != nil:
		return e.Machine.State == config.MachineDecommissioned || e.Renamed
	default:
		return p.Deletion == config.DeletionAbsence && e.WasListed &&
			e.MissingIn >= p.Absence.MinSnapshots && e.MissingSince >= p.Absence.MinDuration.Duration
	}
}
