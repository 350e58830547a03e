package finding

// What pods find that ask the network from Nodes (`ccmadm doctor --probe`).
const (
	NodeServiceUnanswered ID = "T1"
	NodeServerUnreached   ID = "T2"
	NodeDNSUnanswered     ID = "T3"
	KubeletUnreached      ID = "T4"
	NodeBalancerUnreached ID = "T5"
	NodeForwardingOff     ID = "T6"
	LinkMTU               ID = "T7"
	PodMTU                ID = "T8"
)

// probed is about the network as a Node sees it.
func probed() []Kind {
	return []Kind{
		{
			ID: NodeServiceUnanswered, Reason: "NodeServiceUnanswered", Severity: SeverityError,
			Title: "API server does not answer a Node at its Service address",
			Why:   "Pods on that Node reach the API server by this address, and other Services by the same rules of kube-proxy.",
			Do: "restart kube-proxy's pod on that Node, and look for a firewall rule there; where only pods get no answer, look at the " +
				"CNI plugin and its NetworkPolicies",
		},
		{
			ID: NodeServerUnreached, Reason: "NodeServerUnreached", Severity: SeverityError,
			Title: "API server is not reachable from a Node",
			Why:   "The kubelet and kube-proxy of that Node lose the API server when their connections end, and the Node becomes NotReady.",
			Do:    "correct its name, route or firewall on that Node; if other Nodes cannot reach it either, repair the API server",
		},
		{
			ID: NodeDNSUnanswered, Reason: "NodeDNSUnanswered", Severity: SeverityError,
			Title: "Cluster DNS does not answer a Node",
			Why:   "Pods on that Node resolve no names of Services. DNS uses UDP, and TCP for long answers.",
			Do: "check that pods of the cluster DNS are ready; where other Nodes get an answer, correct kube-proxy, the CNI plugin or a " +
				"firewall on this one",
		},
		{
			ID: KubeletUnreached, Reason: "KubeletUnreached", Severity: SeverityError,
			Title: "Kubelet of a Node is not reachable from API servers or other Nodes",
			Why:   "API servers reach kubelets for logs, exec and metrics, and Nodes carry the packets of pods between each other.",
			Do: "open TCP port 10250 from the control planes to all Nodes and between the Nodes, and correct the route; ping tells whether the machine " +
				"is reachable at all",
		},
		{
			ID: NodeBalancerUnreached, Reason: "NodeBalancerUnreached", Severity: SeverityWarning,
			Title: "Address of a load balancer does not answer a Node",
			Why:   "The Service has ready endpoints, and a client on that Node gets no connection.",
			Do:    "ccmadm lb why shows where the address is announced; check kube-proxy's rules on that Node",
		},
		{
			ID: NodeForwardingOff, Reason: "NodeForwardingOff", Severity: SeverityError,
			Title: "IP forwarding is off on a Node",
			Why:   "Packets of pods do not leave the machine, and those for its pods do not arrive.",
			Do:    "switch it on, and keep it in /etc/sysctl.d",
			Links: []string{
				"https://kubernetes.io/docs/setup/production-environment/container-runtimes/#prerequisite-ipv4-forwarding-optional",
			},
		},
		{
			ID: LinkMTU, Reason: "LinkMTU", Severity: SeverityWarning,
			Title: "MTU of a Node's default link differs from that of other Nodes",
			Why:   "Large packets between the Nodes are dropped where the smaller link does not fragment them: connections open, and hang.",
			Do:    "set the same MTU on all Nodes, or the CNI plugin's MTU to fit the smallest",
		},
		{
			ID: PodMTU, Reason: "PodMTU", Title: "MTU of pods is larger than that of the Node's default link", Severity: SeverityWarning,
			Why: "Large packets of pods are dropped or fragmented where they leave the machine.",
			Do:  "set the CNI plugin's MTU to that of the link, less what its encapsulation adds",
		},
	}
}
