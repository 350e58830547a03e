package finding

// What keeps a Node from being deleted (the guard of package provider/inventory).
const (
	NotOurs         ID = "R1"
	NotUpToDate     ID = "R2"
	NotGone         ID = "R3"
	Protected       ID = "R4"
	ControlPlane    ID = "R5"
	NewLeader       ID = "R6"
	StillTalking    ID = "R7"
	TooManyAtOnce   ID = "R8"
	BudgetExhausted ID = "R9"
)

// refusals is why a Node stays, in the order in which the rules are tried. Titles are what people are told.
func refusals() []Kind {
	return []Kind{
		{
			ID: NotOurs, Reason: "NotOurs", Title: "its provider ID is none of this site's", Severity: SeverityWarning,
			Why: "What another provider or site initialized is theirs to remove.",
			Do:  "nothing, or delete the Node by hand",
		},
		{
			ID: NotUpToDate, Reason: "NotUpToDate", Title: "the inventory is old, doubtful, or read too few times",
			Severity: SeverityWarning,
			Why:      "A machine that might exist is never deleted.",
			Do:       "correct the inventory, or wait for the next readings",
		},
		{
			ID: NotGone, Reason: "NotGone", Title: "the inventory does not say that the machine is gone",
			Severity: SeverityWarning,
			Why:      "Absence alone is no proof.",
			Do:       "set state: decommissioned",
		},
		{
			ID: Protected, Reason: "Protected", Title: "the inventory protects it", Severity: SeverityWarning,
			Why: "Somebody has said that this machine stays.",
			Do:  "remove the protection from the inventory",
		},
		{
			ID: ControlPlane, Reason: "ControlPlane", Title: "it is a control plane, and force is not set",
			Severity: SeverityWarning,
			Why:      "A control plane is a member of etcd too.",
			Do:       "remove the member first, then set force",
		},
		{
			ID: NewLeader, Reason: "NewLeader", Title: "the cloud-controller-manager has just become the leader",
			Severity: SeverityWarning,
			Why:      "Two that take turns would otherwise forget what they saw.",
			Do:       "wait",
		},
		{
			ID: StillTalking, Reason: "StillTalking", Title: "its kubelet talks", Severity: SeverityWarning,
			Why: "A machine that talks exists.",
			Do:  "switch the machine off",
		},
		{
			ID: TooManyAtOnce, Reason: "TooManyAtOnce", Severity: SeverityWarning,
			Title: "more Nodes look gone at once than deletionBudget.maxPercent allows",
			Why:   "A fault of the inventory or the network looks like this.",
			Do:    "check the inventory; raise deletionBudget if they are really gone",
		},
		{
			ID: BudgetExhausted, Reason: "BudgetExhausted", Title: "deletionBudget is used up by other Nodes",
			Severity: SeverityWarning,
			Why:      "Deletions are spread over time.",
			Do:       "wait, or raise deletionBudget",
		},
	}
}
