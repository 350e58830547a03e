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
			ID: NotOurs, Reason: "NotOurs", Title: "its provider ID is not of this site", Severity: SeverityWarning,
			Why: "Only the provider or site that initialized a Node may remove it.",
			Do:  "nothing, or delete the Node by hand",
		},
		{
			ID: NotUpToDate, Reason: "NotUpToDate", Severity: SeverityWarning,
			Title: "the inventory is old, implausible, or was read too few times",
			Why:   "A machine that might exist is never deleted.",
			Do:    "correct the inventory, or wait for the next readings",
		},
		{
			ID: NotGone, Reason: "NotGone", Title: "the inventory does not mark the machine as gone", Severity: SeverityWarning,
			Why: "A machine that is missing from the inventory may still exist.",
			Do:  "set state: decommissioned",
		},
		{
			ID: Protected, Reason: "Protected", Title: "the inventory protects it", Severity: SeverityWarning,
			Why: "The inventory marks this machine as protected.",
			Do:  "remove the protection from the inventory",
		},
		{
			ID: ControlPlane, Reason: "ControlPlane", Title: "it is a control plane, and force is not set", Severity: SeverityWarning,
			Why: "A control plane is a member of etcd too.",
			Do:  "remove the member first, then set force",
		},
		{
			ID: NewLeader, Reason: "NewLeader", Severity: SeverityWarning,
			Title: "the cloud-controller-manager has just become the leader",
			Why:   "A cloud-controller-manager loses its observations when another one becomes the leader.",
			Do:    "wait: the guard decides again when it has been the leader for long enough",
		},
		{
			ID: StillTalking, Reason: "StillTalking", Title: "its kubelet still posts status", Severity: SeverityWarning,
			Why: "A machine whose kubelet posts status exists.",
			Do:  "switch the machine off",
		},
		{
			ID: TooManyAtOnce, Reason: "TooManyAtOnce", Severity: SeverityWarning,
			Title: "more Nodes look gone at once than deletionBudget.maxPercent allows",
			Why:   "A failure of the inventory or of the network looks the same.",
			Do:    "check the inventory; raise deletionBudget if the machines are really gone",
		},
		{
			ID: BudgetExhausted, Reason: "BudgetExhausted", Title: "deletionBudget is used up by other Nodes",
			Severity: SeverityWarning,
			Why:      "Deletions are spread over time.",
			Do:       "wait, or raise deletionBudget",
		},
	}
}
