package finding

// The troubles of the onprem provider with a Node's machine. Their reasons are those of Events on the Node.
const (
	NoInventory      ID = "M1"
	AmbiguousMachine ID = "M2"
	OtherMachine     ID = "M3"
	UnknownMachine   ID = "M4"
	MachineTaken     ID = "M5"
	NoAddress        ID = "M6"
	AddressNotListed ID = "M7"
)

// machines is about Nodes whose machine the provider cannot serve.
func machines() []Kind {
	return []Kind{
		{
			ID: NoInventory, Reason: "NoInventory", Title: "There is no inventory", Severity: SeverityError,
			Why: "It has not been read, or what was read is not one.",
			Do:  "correct the inventory, or where it is read from",
		},
		{
			ID: AmbiguousMachine, Reason: "AmbiguousMachine", Title: "Several machines match the Node",
			Severity: SeverityError,
			Why:      "The inventory's match fields fit more than one machine.",
			Do:       "correct what the inventory says under match",
		},
		{
			ID: OtherMachine, Reason: "OtherMachine", Title: "The Node is another machine than the listed one",
			Severity: SeverityError,
			Why:      "The name fits and the system UUID does not.",
			Do:       "correct match.systemUUID if the board was replaced",
		},
		{
			ID: UnknownMachine, Reason: "UnknownMachine", Title: "No machine of the inventory is this Node",
			Severity: SeverityError,
			Why:      "With unknownNodes: hold, a Node that is not listed is not initialized.",
			Do:       "list it",
		},
		{
			ID: MachineTaken, Reason: "MachineTaken", Title: "The machine is another Node's", Severity: SeverityError,
			Why: "Two Nodes give the same machine: a clone, or a machine with a new name.",
			Do:  "give a clone a UUID of its own; list the new name of a machine",
		},
		{
			ID: NoAddress, Reason: "NoAddress", Title: "The Node has no address", Severity: SeverityError,
			Why: "Neither the inventory nor the kubelet says one.",
			Do:  "list addresses, or give the kubelet --node-ip",
		},
		{
			ID: AddressNotListed, Reason: "AddressNotListed", Title: "The kubelet's address is not listed",
			Severity: SeverityError,
			Why:      "What a kubelet says is not believed against the inventory.",
			Do:       "list the new addresses",
		},
	}
}
