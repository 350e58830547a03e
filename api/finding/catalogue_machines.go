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
			ID: NoInventory, Reason: "NoInventory", Title: "Inventory is not available", Severity: SeverityError,
			Why: "It has not been read, or its content is not an inventory.",
			Do:  "correct the inventory, or the place that it is read from",
		},
		{
			ID: AmbiguousMachine, Reason: "AmbiguousMachine", Title: "Several machines match the Node", Severity: SeverityError,
			Why: "The match fields of more than one machine of the inventory fit.",
			Do:  "correct the match fields in the inventory",
		},
		{
			ID: OtherMachine, Reason: "OtherMachine", Title: "Node is another machine than the listed one", Severity: SeverityError,
			Why: "The name matches and the system UUID does not.",
			Do:  "correct match.systemUUID if the board was replaced",
		},
		{
			ID: UnknownMachine, Reason: "UnknownMachine", Title: "Node is not in the inventory", Severity: SeverityError,
			Why: "With unknownNodes: hold, a Node that is not listed is not initialized.",
			Do:  "list the machine in the inventory",
		},
		{
			ID: ReadingRejected, Reason: "InventoryRejected", Title: "Latest inventory was rejected", Severity: SeverityWarning,
			Why: "It cannot be read, or is not plausible; the last good one stays in use, so no Node is deleted, and a machine listed " +
				"since then is not served.",
			Do: "correct the inventory, or the place that it is read from",
		},
	}
}

// identities is about Nodes that give an identity or an address which is not theirs.
func identities() []Kind {
	return []Kind{
		{
			ID: MachineTaken, Reason: "MachineTaken", Title: "Machine belongs to another Node", Severity: SeverityError,
			Why: "Two Nodes report the same machine: a clone, or a machine with a new name.",
			Do:  "give the clone a system UUID of its own; list the machine's new name",
		},
		{
			ID: NoAddress, Reason: "NoAddress", Title: "Node has no address", Severity: SeverityError,
			Why: "Neither the inventory nor the kubelet provides one.",
			Do:  "list addresses in the inventory, or set the kubelet's --node-ip",
		},
		{
			ID: AddressNotListed, Reason: "AddressNotListed", Title: "Kubelet's address is not in the inventory", Severity: SeverityError,
			Why: "The inventory takes precedence over an address that a kubelet reports.",
			Do:  "list the new addresses in the inventory",
		},
		{
			ID: Decommissioned, Reason: "Decommissioned", Title: "Node's machine is decommissioned", Severity: SeverityError,
			Why: "The inventory lists the machine as decommissioned, and its Node would be deleted as soon as its kubelet stops " +
				"posting status.",
			Do: "set state: active if the machine is in use again, or disconnect it from the network",
		},
		{
			ID: UnprovenIdentity, Reason: "UnprovenIdentity", Severity: SeverityError,
			Title: "Kubelet's provider ID is not confirmed by the inventory",
			Why: "A machine that may join can write any provider ID to its own Node, so the inventory has to identify the machine by " +
				"another property as well.",
			Do: "remove providerID from the kubelet's configuration (a machine image may have it), or list the machine's " +
				"match.systemUUID or hostname",
		},
		{
			ID: AddressTaken, Reason: "AddressTaken", Title: "Kubelet reports the address of another machine", Severity: SeverityError,
			Why: "Traffic for that machine would go to this one.",
			Do:  "correct --node-ip, or the addresses in the inventory",
		},
		{
			ID: NotPrepared, Reason: "NotPrepared", Title: "Taints or labels of the machine cannot be written", Severity: SeverityError,
			Why: "The Node stays tainted, because pods that the machine's taints keep away could be scheduled.",
			Do:  "check the API server's answer in the message; the cloud-controller-manager needs to patch nodes",
		},
		{
			ID: TaintWithheld, Reason: "TaintWithheld", Severity: SeverityWarning,
			Title: "Taint that evicts pods is not added to a running Node",
			Why:   "An edit of the inventory must not evict every pod of a machine.",
			Do:    "drain the Node, then add the taint with kubectl",
		},
		{
			ID: ForgedRecord, Reason: "ForgedRecord", Severity: SeverityWarning,
			Title: "Node's record of inventory labels names other labels",
			Why: "Only a kubelet's credentials or an administrator's can write that: ccmadm would remove labels that the kubelet may " +
				"not change, so it leaves them.",
			Do: "find out who wrote annotation ccmadm.dev/inventory-labels, and whether the machine is still yours",
		},
		{
			ID: Untainted, Reason: "Untainted", Severity: SeverityWarning,
			Title: "Node registered with a provider ID and without the uninitialized taint",
			Why: "Such a Node is never initialized, so pods ran there before any check: a kubelet without --cloud-provider=external " +
				"registers so, and so can a client with a kubelet's credentials.",
			Do: "run the kubelet with --cloud-provider=external, delete the Node and restart the kubelet; if the machine is not " +
				"yours, revoke its credentials",
		},
	}
}
