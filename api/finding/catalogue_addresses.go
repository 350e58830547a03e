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
	IPAMPending         ID = "L17"
	IPAMRefused         ID = "L18"
)

// pending is about Services that wait for an address.
func pending() []Kind {
	return []Kind{
		{
			ID: PoolExhausted, Reason: "PoolExhausted", Title: "AddressPools have no free address", Severity: SeverityError,
			Why: "Every address of the pools that serve the Service is in use, or is reserved for the Service that had it.",
			Do:  "add a range to an AddressPool; `ccmadm lb pools` shows how full they are",
		},
		{
			ID: AddressInUse, Reason: "AddressInUse", Title: "Requested address is in use by another Service", Severity: SeverityError,
			Why: "An address has one owner, or several that share it under one key.",
			Do: "request another address, move this one with `ccmadm lb move`, or give both Services the same ccmadm.dev/share-key; in " +
				"two namespaces each also lists the other's namespace in ccmadm.dev/share-namespaces",
		},
		{
			ID: AddressOutsidePools, Reason: "AddressOutsidePools", Severity: SeverityError,
			Title: "Requested address is in no AddressPool",
			Why:   "Only addresses of an AddressPool that serves the Service are assigned.",
			Do:    "add the address to a pool, or request an address of a pool",
		},
		{
			ID: NoSuchFamily, Reason: "NoSuchFamily", Title: "AddressPools have no address of the IP family", Severity: SeverityError,
			Why: "The Service requires IPv4 or IPv6, and the pools that serve it have only the other family.",
			Do:  "add a range of the family, or change ipFamilies of the Service",
		},
		{
			ID: SharingConflict, Reason: "SharingConflict", Title: "Services cannot share the address", Severity: SeverityError,
			Why: "Services that share an address need one key and different ports, and with externalTrafficPolicy Local also the " +
				"same pods. In two namespaces each lists the other's namespace in ccmadm.dev/share-namespaces.",
			Do: "correct the difference that the message names, or give one Service an address of its own",
		},
		{
			ID: PortReserved, Reason: "PortReserved", Title: "Port is reserved on the Nodes", Severity: SeverityError,
			Why: "At level NodeIP the Service has the Nodes' own addresses, so kube-proxy would take the port from SSH, the kubelet, " +
				"the API server or another Service.",
			Do: "use another port, create an AddressPool, or set ccmadm.dev/node-ports: any on the Service, which requires label " +
				"ccmadm.dev/reserved-ports=allow on its Namespace",
		},
		{
			ID: PoolNotFound, Reason: "PoolNotFound", Title: "Requested AddressPool does not exist", Severity: SeverityError,
			Why: "The Service names the pool in its annotation ccmadm.dev/address-pool.",
			Do:  "correct the annotation, or create the pool",
		},
		{
			ID: NoPoolServes, Reason: "NoPoolServes", Title: "No AddressPool serves the Service", Severity: SeverityError,
			Why: "Every pool is disabled, has autoAssign: false, or its selectors do not match this Service.",
			Do:  "change serve or autoAssign of a pool, or name one in ccmadm.dev/address-pool",
		},
		{
			ID: IPAMPending, Reason: "IPAMPending", Title: "IPAM of the AddressPool has not given an address", Severity: SeverityWarning,
			Why: "The pool has spec.ipam: that endpoint chooses addresses, and the cloud-controller-manager retries until it responds.",
			Do: "check the endpoint, its certificate and Secret kube-system/ccmadm-ipam; the message has what it answers; with spec.disabled " +
				"in the pool, Services without an address get one from another pool",
		},
		{
			ID: IPAMRefused, Reason: "IPAMRefused", Title: "IPAM of the AddressPool gives no address that can be used", Severity: SeverityError,
			Why: "It has none left for the Service, or answers an address that is outside of the pool, reserved, or another Service's.",
			Do:  "correct the IPAM, or ranges and exclude of the pool",
		},
		{
			ID: ProxyBinds, Reason: "ProxyBinds", Severity: SeverityError,
			Title: "kube-proxy would bind the Nodes' addresses on every Node",
			Why: "In ipvs mode kube-proxy binds load balancer addresses on every Node, so each Node would treat the others' addresses " +
				"as local, and kubelets, API servers and etcd could not reach each other.",
			Do: "create an AddressPool, with strictARP: true for kube-proxy; or set its mode to nftables, restart it on every Node, " +
				"and then restart the cloud-controller-manager; if its ConfigMap cannot be read, run ccmadm apply",
		},
	}
}

// silent is about addresses that nothing answers for, or another program.
func silent() []Kind {
	return []Kind{
		{
			ID: NoEligibleNode, Reason: "NoEligibleNode", Title: "No Node is eligible for the address", Severity: SeverityError,
			Why: "Every Node is excluded: by its labels, by the pool, by draining, or because it has no endpoint.",
			Do:  "`ccmadm lb why SERVICE` shows the reason for each Node",
		},
		{
			ID: NoReadyEndpoint, Reason: "NoReadyEndpoint", Title: "Service has no ready endpoint", Severity: SeverityWarning,
			Why: "With externalTrafficPolicy Local only Nodes with an endpoint answer for the address, which stays the Service's.",
			Do:  "`kubectl get endpointslices -l kubernetes.io/service-name=NAME` and the Service's pods show why none is ready",
		},
		{
			ID: NotAnnounced, Reason: "NotAnnounced", Title: "Address is not announced", Severity: SeverityError,
			Why: "The address is assigned, and no agent reports that it answers for it.",
			Do: "`ccmadm apply -f FILE` with nodeAgent: {enabled: true} installs the agent; `kubectl -n kube-system get pods -l " +
				"app.kubernetes.io/name=ccmadm-node-agent` shows it",
		},
		{
			ID: AddressConflict, Reason: "AddressConflict", Title: "Another machine answers for the address", Severity: SeverityError,
			Why: "A machine without an agent of this cluster has the address, so packets reach either machine.",
			Do:  "remove the address from that machine, or exclude it from the pool; `ccmadm lb probe ADDRESS` shows which machines answer",
		},
		{
			ID: AgentSilent, Reason: "AgentSilent", Title: "Agent has not reported for a minute", Severity: SeverityWarning,
			Why: "An agent reports every 20 seconds; its addresses may have moved to other Nodes. It may have a vote at level L2. No " +
				"Node owns an address there while more than half of the votes are missing, or half with that of the first control plane by name.",
			Do: "check its pod and its Node; run `kubectl delete nodeagent NODE` if no agent is to run there; if `N of M voters do not report` " +
				"and their machines are off, run `kubectl delete node NODE` for each: nothing else ends their votes, except the taint " +
				"node.kubernetes.io/out-of-service",
		},
		{
			ID: PoolNotReady, Reason: "PoolNotReady", Title: "AddressPool is not Ready", Severity: SeverityError,
			Why: "It overlaps another pool, or contains addresses of Nodes, Services or pods.",
			Do:  "correct its ranges; its condition Ready names the conflict",
		},
		{
			ID: PeerDown, Reason: "PeerDown", Title: "BGP session with a peer is down", Severity: SeverityWarning,
			Why: "The router does not learn addresses from this Node.",
			Do:  "compare address, ASN and password with the router's; the message of the session has the peer's error",
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
			ID: RouteMissing, Reason: "RouteMissing", Title: "Route to the pods of another Node is missing", Severity: SeverityError,
			Why: "Pods of this Node do not reach the pods of the other one.",
			Do:  "check the log of the Node's agent",
		},
		{
			ID: RouteForeign, Reason: "Foreign", Title: "Route to the pods was set by another program", Severity: SeverityError,
			Why: "A route whose protocol is not 158 belongs to another program, usually a CNI plugin, and is never overwritten.",
			Do:  "let one program set routes: remove the other one, or switch routes off",
		},
		{
			ID: RouteUnreachable, Reason: "Unreachable", Title: "Node shares no subnet with this Node", Severity: SeverityError,
			Why: "A route needs a next hop in a network that both Nodes are in.",
			Do:  "announce pod networks by BGP, or use a CNI plugin with an overlay",
		},
		{
			ID: RouteRejected, Reason: "Rejected", Title: "Kernel refuses the route", Severity: SeverityError,
			Why: "The message is the kernel's error.",
			Do:  "check the addresses and interfaces of the Node",
		},
	}
}
