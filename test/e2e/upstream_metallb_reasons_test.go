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

// metallbKnown are those that fail, and are known to.
func metallbKnown() []reason {
	return nil
}
