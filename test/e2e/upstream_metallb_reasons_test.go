package e2e

// metallbApart are MetalLB's tests that do not apply to another load balancer.
func metallbApart() []reason {
	return []reason{
		{`Webhooks`, "its own objects: what its webhooks deny"},
		{`metrics`, "metrics of its own pods"},
		{`legacy`, "its own object AddressPool, of before IPAddressPool"},
		{`FRR must be deployed|FRR rejects any routes|reload feedback|FRR running configuration`, "FRR in its own pods"},
		{`same ip should advertise from the same node`, "reads Event `nodeAssigned` of its speakers"},
		{`Validate the LB IP.s mac`, "runs commands in the pods of its speakers"},
		{`Peer Selector A service`, "no counterpart of `peers` of BGPAdvertisement: all routers get all addresses"},
		{`Single service, two advertisement`, "no counterpart: one address with other communities from other Nodes"},
		{`with routerid`, "no counterpart of `routerID`: it is the Node's address"},
		{`Peer selector IPV4 Should work with a limited set`, "two and three routers; the lab has one"},
	}
}

// metallbLeft are those that cannot pass, and fail after minutes only.
func metallbLeft() []reason {
	const unannounced = "no Node may announce the address when its Service is created. MetalLB publishes it all the same, ccmadm when " +
		"a Node announces it (`NotAnnounced`)"
	return []reason{
		{`zero on first, two on second`, unannounced},
		{`one advertisement with node selector, labeling node`, unannounced},
		{`Specify not existing interfaces`, unannounced},
		{`should work with two protocols`, "an address has one level: L2, or BGP"},
		{`should work with the given bfd profile`, "the last check wants the Nodes' BFD to offer echo, which ccmadm's does not (interval 0); " +
			"sessions, routes and traffic before it are right"},
	}
}

// metallbKnown are those that fail, and are known to.
func metallbKnown() []reason {
	return []reason{
		{`Address pool connected with two L2 advertisements`, "an address is answered for on one interface of its Node"},
	}
}
