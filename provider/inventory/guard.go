package inventory

import (
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Refusal is the rule that keeps a Node; "" means that none does.
type Refusal string

// The refusals, in the order in which the rules are tried.
const (
	NotOurs         Refusal = "NotOurs"         // its provider ID is none of this site's
	NotUpToDate     Refusal = "NotUpToDate"     // the inventory is old, doubtful, or read too few times
	NotGone         Refusal = "NotGone"         // the inventory does not say that the machine is gone
	ProtectedNode   Refusal = "Protected"       // the inventory protects it
	ControlPlane    Refusal = "ControlPlane"    // and nobody forces it
	NewLeader       Refusal = "NewLeader"       // this process has not led for long enough
	StillTalking    Refusal = "StillTalking"    // its kubelet renews its Lease, or nobody can tell
	TooManyAtOnce   Refusal = "TooManyAtOnce"   // the breaker
	BudgetExhausted Refusal = "BudgetExhausted" // others were deleted just now
)

// Because is the same in words, for people.
func (r Refusal) Because() string {
	switch r {
	case NotOurs:
		return "its provider ID is none of this site's"
	case NotUpToDate:
		return "the inventory is old, doubtful, or read too few times"
	case NotGone:
		return "the inventory does not say that the machine is gone"
	case ProtectedNode:
		return "the inventory protects it"
	case ControlPlane:
		return "it is a control plane, and force is not set"
	case NewLeader:
		return "the cloud-controller-manager has just become the leader"
	case StillTalking:
		return "its kubelet talks"
	case TooManyAtOnce:
		return "more Nodes look gone at once than deletionBudget.maxPercent allows"
	case BudgetExhausted:
		return "deletionBudget is used up by other Nodes"
	}
	return string(r)
}

// MinLeading is for how long a process must have led before it may delete: two
// that take turns would otherwise forget what they saw.
const MinLeading = time.Minute

// Evidence is all that is known when somebody asks whether a machine is gone.
type Evidence struct {
	OurSite bool // the Node's provider ID is ours, and of the inventory's site

	UpToDate bool          // the latest reading was good
	Age      time.Duration // since that reading
	Readings int           // good ones since the start

	Machine      *v1alpha1.Machine // nil: not listed
	WasListed    bool              // the Node was initialized as a listed machine
	Renamed      bool              // the inventory gives the machine another name, and the Node of that name is Ready
	MissingIn    int               // good readings in a row
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

// Guard returns the first rule that keeps the Node. Each of them alone is enough.
func Guard(p v1alpha1.InventoryPolicy, b Bounds, e Evidence) Refusal {
	if r := GuardIdentity(p, b, e); r != "" {
		return r
	}
	if e.Silent < b.Silence {
		return StillTalking
	}
	if e.Candidates > max(1, e.Nodes*p.DeletionBudget.MaxPercent/100) {
		return TooManyAtOnce
	}
	if e.Deleted >= p.DeletionBudget.Max {
		return BudgetExhausted
	}
	return ""
}

// GuardIdentity is the part of Guard that needs no request and no memory of other
// Nodes: most questions end here.
func GuardIdentity(p v1alpha1.InventoryPolicy, b Bounds, e Evidence) Refusal {
	switch {
	case !e.OurSite:
		return NotOurs
	case !e.UpToDate || e.Age > b.MaxAge || e.Readings < p.Absence.MinSnapshots:
		return NotUpToDate
	case !gone(p, e):
		return NotGone
	case e.Machine != nil && e.Machine.Protected:
		return ProtectedNode
	case e.ControlPlane && (e.Machine == nil || !e.Machine.Force):
		return ControlPlane
	case e.Leading < MinLeading:
		return NewLeader
	}
	return ""
}

// gone says whether the inventory does, of the machine or of its old name. A Node
// that was never listed, but adopted, is not missing from it.
func gone(p v1alpha1.InventoryPolicy, e Evidence) bool {
	switch {
	case p.Deletion == v1alpha1.DeletionNever || p.Deletion == "":
		return false
	case e.Machine != nil:
		return e.Machine.State == v1alpha1.MachineDecommissioned || e.Renamed
	default:
		return p.Deletion == v1alpha1.DeletionAbsence && e.WasListed &&
			e.MissingIn >= p.Absence.MinSnapshots && e.MissingSince >= p.Absence.MinDuration.Duration
	}
}
