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
	Decommissioned   ID = "M8"
	UnprovenIdentity ID = "M9"
	AddressTaken     ID = "M10"
	NotPrepared      ID = "M11"
	TaintWithheld    ID = "M12"
	ForgedRecord     ID = "M13"
	Untainted        ID = "M14"
	ReadingRejected  ID = "M15"
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
			ID: ReadingRejected, Reason: "InventoryRejected", Title: "The inventory's latest reading was rejected",
			Severity: SeverityWarning,
			Why: "It cannot be read, or cannot be right. The last good one stays in use: no Node is deleted, and a machine " +
				"that was listed since then is not served.",
			Do: "correct the inventory, or where it is read from",
		},
	}
}

// identities is about Nodes that give an identity or an address which is not theirs.
func identities() []Kind {
	return []Kind{
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
		{
			ID:       Decommissioned,
			Reason:   "Decommissioned",
			Title:    "The Node is a machine that will not come back",
			Severity: SeverityError,
			Why:      "The inventory lists the machine as decommissioned, and its Node would be deleted as soon as it is silent.",
			Do:       "set state: active if the machine is in use again, or take it from the network",
		},
		{
			ID:       UnprovenIdentity,
			Reason:   "UnprovenIdentity",
			Title:    "The kubelet gives a provider ID that nothing else supports",
			Severity: SeverityError,
			Why: "Who may join may write any provider ID on the own Node. The inventory has to know the machine by " +
				"something else as well.",
			Do: "remove providerID from the kubelet's configuration (a machine image may have it), or list the machine's " +
				"match.systemUUID or hostname",
		},
		{
			ID: AddressTaken, Reason: "AddressTaken", Title: "The kubelet gives the address of another machine",
			Severity: SeverityError,
			Why:      "Traffic for that machine would go to this one.",
			Do:       "correct --node-ip, or the addresses in the inventory",
		},
		{
			ID: NotPrepared, Reason: "NotPrepared", Title: "Taints or labels of the machine cannot be written",
			Severity: SeverityError,
			Why:      "The Node stays tainted: pods that the machine's taints keep away could come.",
			Do:       "look at the API server's answer in the message; the cloud-controller-manager needs to patch nodes",
		},
		{
			ID: TaintWithheld, Reason: "TaintWithheld", Title: "A taint that evicts pods is not added to a Node that runs",
			Severity: SeverityWarning,
			Why:      "An edit of the inventory must not evict every pod of a machine.",
			Do:       "drain the Node, then add the taint with kubectl",
		},
		{
			ID: ForgedRecord, Reason: "ForgedRecord", Title: "The Node's record of followed labels names labels of others",
			Severity: SeverityWarning,
			Why: "Only somebody with the credentials of its kubelet, or an administrator, writes that: labels that a kubelet " +
				"may not touch would be taken away in its place. They stay.",
			Do: "find out who wrote annotation ccmadm.dev/inventory-labels, and whether the machine is still yours",
		},
		{
			ID: Untainted, Reason: "Untainted", Severity: SeverityWarning,
			Title: "The Node registered with a provider ID and without the uninitialized taint",
			Why: "Nobody initializes such a Node, so pods ran there before anything was checked. A kubelet without " +
				"--cloud-provider=external does that, and so may whoever has the credentials of one.",
			Do: "run the kubelet with --cloud-provider=external, delete the Node and restart the kubelet; if the machine is " +
				"not yours, revoke its credentials",
		},
	}
}
