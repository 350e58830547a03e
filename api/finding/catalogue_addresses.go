package finding

// What keeps a Service of type LoadBalancer from its address, or the address from its packets. The reasons are those of
// the condition ccmadm.dev/LoadBalancerReady and of Events on the Service.
const (
	PoolExhausted       ID = "L1"
	AddressInUse        ID = "L2"
	AddressOutsidePools ID = "L3"
	NoSuchFamily        ID = "L4"
	SharingConflict     ID = "L5"
	PortReserved        ID = "L6"
	NoEligibleNode      ID = "L7"
	NotAnnounced        ID = "L8"
	AddressConflict     ID = "L9"
	AgentSilent         ID = "L10"
	PoolNotReady        ID = "L11"
	PeerDown            ID = "L12"
	PoolNotFound        ID = "L13"
	NoPoolServes        ID = "L14"
	ProxyBinds          ID = "L15"
	NoReadyEndpoint     ID = "L16"
)

// pending is about Services that wait for an address.
func pending() []Kind {
	return []Kind{
		{
			ID: PoolExhausted, Reason: "PoolExhausted", Title: "No pool has an address left", Severity: SeverityError,
			Why: "Every address of the pools that serve the Service is another's, or is kept for the Service that had it.",
			Do:  "add a range to an AddressPool; `ccmadm lb pools` shows how full they are",
		},
		{
			ID: AddressInUse, Reason: "AddressInUse", Title: "The address that is asked for is another Service's",
			Severity: SeverityError,
			Why:      "An address has one owner, or several that share it under one key.",
			Do:       "ask for another one, or give both Services of one namespace the same ccmadm.dev/share-key",
		},
		{
			ID: AddressOutsidePools, Reason: "AddressOutsidePools", Title: "The address that is asked for is in no pool",
			Severity: SeverityError,
			Why:      "Only addresses of an AddressPool that serves the Service are given.",
			Do:       "add it to a pool, or ask for one of a pool",
		},
		{
			ID: NoSuchFamily, Reason: "NoSuchFamily", Title: "No pool has addresses of the family", Severity: SeverityError,
			Why: "The Service wants IPv4 or IPv6, and the pools that serve it have the other only.",
			Do:  "add a range of the family, or change ipFamilies of the Service",
		},
		{
			ID: SharingConflict, Reason: "SharingConflict", Title: "The Services cannot share the address",
			Severity: SeverityError,
			Why: "Sharers need one namespace, one key and ports of their own; with externalTrafficPolicy Local also the same " +
				"pods.",
			Do: "correct what the message names, or give one of them an address of its own",
		},
		{
			ID: PortReserved, Reason: "PortReserved", Title: "The port belongs to the Nodes", Severity: SeverityError,
			Why: "At level NodeIP the Service has the Nodes' own addresses: kube-proxy would take the port from SSH, the " +
				"kubelet, the API server or another Service.",
			Do: "use another port, make an AddressPool, or say ccmadm.dev/node-ports: any on the Service, which takes label " +
				"ccmadm.dev/reserved-ports=allow on its Namespace",
		},
		{
			ID: PoolNotFound, Reason: "PoolNotFound", Title: "The AddressPool that is asked for is not there",
			Severity: SeverityError,
			Why:      "The annotation ccmadm.dev/address-pool names it.",
			Do:       "correct the annotation, or make the pool",
		},
		{
			ID: NoPoolServes, Reason: "NoPoolServes", Title: "No AddressPool serves the Service", Severity: SeverityError,
			Why: "Pools are limited to other namespaces or labels, are disabled, or give nothing unasked.",
			Do:  "change serve or autoAssign of a pool, or name one in ccmadm.dev/address-pool",
		},
		{
			ID: ProxyBinds, Reason: "ProxyBinds", Title: "kube-proxy would bind the Nodes' addresses on every Node",
			Severity: SeverityError,
			Why: "In mode ipvs it does with what is published: each Node would take the others' addresses for its own, and " +
				"the kubelets, the API servers and etcd would not reach each other.",
			Do: "make an AddressPool, with strictARP: true for kube-proxy; or set its mode to nftables, restart it on every " +
				"Node, and then the cloud-controller-manager; if its ConfigMap cannot be read, ccmadm apply",
		},
	}
}

// silent is about addresses that nobody answers for, or somebody else.
func silent() []Kind {
	return []Kind{
		{
			ID: NoEligibleNode, Reason: "NoEligibleNode", Title: "No Node may have the address", Severity: SeverityError,
			Why: "Every Node is ruled out: by its labels, by the pool, by draining, or for want of an endpoint.",
			Do:  "`ccmadm lb why SERVICE` says for each Node what rules it out",
		},
		{
			ID: NoReadyEndpoint, Reason: "NoReadyEndpoint", Title: "The Service has no ready endpoint", Severity: SeverityWarning,
			Why: "With externalTrafficPolicy Local only Nodes with an endpoint answer for the address. It stays the Service's.",
			Do:  "`kubectl get endpointslices -l kubernetes.io/service-name=NAME` and its pods say why none is ready",
		},
		{
			ID: NotAnnounced, Reason: "NotAnnounced", Title: "Nobody announces the address", Severity: SeverityError,
			Why: "The address is given, and no agent says that it answers for it.",
			Do:  "`ccmadm apply -f FILE` with nodeAgent: {enabled: true} installs the agent; `kubectl -n kube-system get pods -l app.kubernetes.io/name=ccmadm-node-agent` shows it",
		},
		{
			ID: AddressConflict, Reason: "AddressConflict", Title: "Somebody else answers for the address",
			Severity: SeverityError,
			Why:      "A machine that is no agent has it: packets go to the one or to the other.",
			Do:       "take the address from that machine, or exclude it from the pool; `ccmadm lb probe ADDRESS` shows who answers",
		},
		{
			ID: AgentSilent, Reason: "AgentSilent", Title: "An agent has not reported for a minute", Severity: SeverityWarning,
			Why: "It writes every 20 seconds. What it last announced may be another's by now. For five minutes it still has a " +
				"vote on who owns an address of level L2: where half of the votes are silent, nobody does.",
			Do: "look at its pod and its Node; `kubectl delete nodeagent NODE` if no agent is to run there",
		},
		{
			ID: PoolNotReady, Reason: "PoolNotReady", Title: "An AddressPool gives nothing", Severity: SeverityError,
			Why: "It overlaps another one, or holds addresses of Nodes, Services or pods.",
			Do:  "correct its ranges as its condition Ready says",
		},
		{
			ID: PeerDown, Reason: "PeerDown", Title: "A Node has no session with a BGP peer", Severity: SeverityWarning,
			Why: "The router does not learn from it where addresses are.",
			Do:  "compare address, ASN and password with the router's; the message of the session says what it heard",
		},
	}
}

// What keeps a route to pods out of a Node's kernel. The reasons are those of the agents' reports.
const (
	RouteMissing     ID = "F7"
	RouteForeign     ID = "F8"
	RouteUnreachable ID = "F9"
	RouteRejected    ID = "F10"
)

func podRoutes() []Kind {
	return []Kind{
		{
			ID: RouteMissing, Reason: "RouteMissing", Title: "A Node has no route to the pods of another",
			Severity: SeverityError,
			Why:      "Its pods do not reach those.",
			Do:       "look at the log of its node agent",
		},
		{
			ID: RouteForeign, Reason: "Foreign", Title: "Somebody else has set a route to the pods", Severity: SeverityError,
			Why: "A route that is not of protocol 158 is another program's, mostly a CNI plugin's, and is never overwritten.",
			Do:  "let one of them set routes: remove that program, or switch routes off",
		},
		{
			ID: RouteUnreachable, Reason: "Unreachable", Title: "The Node is in no subnet of this one", Severity: SeverityError,
			Why: "A route needs a next hop on a network that both are in.",
			Do:  "announce pod networks by BGP, or use a CNI plugin with an overlay",
		},
		{
			ID: RouteRejected, Reason: "Rejected", Title: "The kernel refuses the route", Severity: SeverityError,
			Why: "The message is the kernel's.",
			Do:  "look at the addresses and interfaces of the Node",
		},
	}
}
