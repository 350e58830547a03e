package e2e

// balanced makes a Service with annotations and a spec.
func balanced(annotations, spec string) string {
	return "kubectl create -f - <<'END'\n{apiVersion: v1, kind: Service, metadata: {name: shop, annotations: {" + annotations +
		"}}, spec: {type: LoadBalancer, selector: {app: shop}, " + spec + "}}\nEND\n"
}

// faultsOfServices are wishes that the provider cannot fulfil: what to wish instead, a person has to say.
func faultsOfServices() []injected {
	const port80, remove = "ports: [{port: 80}]", "kubectl delete service shop"
	const pool = "kubectl create -f - <<'END'\n{apiVersion: ccmadm.dev/v1alpha1, kind: AddressPool, metadata: {name: small}, spec: {ranges: [192.0.2.10]}}\nEND\n"
	return []injected{
		{
			id: "L13", what: "Service that asks for a pool that is not there", inject: balanced("ccmadm.dev/address-pool: nowhere", port80),
			choice: "kubectl annotate service shop ccmadm.dev/address-pool-", undo: remove,
		},
		{
			id: "L3", what: "Service that asks for an address of no pool", inject: balanced("ccmadm.dev/addresses: 203.0.113.9", port80),
			choice: "kubectl annotate service shop ccmadm.dev/addresses-", undo: remove,
		},
		{
			id: "L6", what: "Service on a port of the Nodes", inject: balanced("", "ports: [{port: 10250}]"),
			choice: `kubectl patch service shop -p '{"spec":{"ports":[{"port":10250,"$patch":"delete"},{"port":80}]}}'`, undo: remove,
		},
		{
			id: "L16", what: "Service for Nodes with an endpoint, of which there is none", inject: balanced("", "externalTrafficPolicy: Local, "+port80),
			choice: `kubectl patch service shop -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'`, undo: remove,
		},
		{
			id: "L8", what: "pool of addresses, and no agent to announce them", inject: pool + balanced("", port80),
			choice: remove + "; kubectl delete addresspool small",
		},
	}
}
