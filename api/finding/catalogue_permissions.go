package finding

// permissions is about RBAC.
func permissions() []Kind {
	return []Kind{
		{
			ID: "D5", Title: "Missing RBAC: extension-apiserver-authentication-reader", Severity: SeverityWarning,
			Why: "Unless its code skips the look-up, the program exits with: configmaps extension-apiserver-authentication is forbidden.",
			Do:  "bind the Role extension-apiserver-authentication-reader in kube-system, or set --authentication-skip-lookup=true",
			Links: []string{
				"linode/linode-cloud-controller-manager#91",
				"kubernetes/cloud-provider#34",
			},
		},
		{
			ID: "D6", Title: "Missing RBAC: leases", Severity: SeverityError,
			Why: "Leader election fails, so no controller starts.",
			Do:  "grant get, create and update of leases in coordination.k8s.io",
			Links: []string{
				"digitalocean/digitalocean-cloud-controller-manager#397",
			},
		},
		{
			ID: "D7", Title: "Missing RBAC: serviceaccounts/token", Severity: SeverityError,
			Why: "With --use-service-account-credentials each controller requests a token of its own.",
			Do:  "grant create of serviceaccounts/token, get and create of serviceaccounts; or drop the flag",
			Links: []string{
				"kubernetes/cloud-provider-openstack#1514",
			},
		},
		{
			ID: "D8", Title: "Missing RBAC: write nodes and nodes/status", Severity: SeverityError,
			Why: "Without update of nodes the taint stays, and without patch of nodes/status an initialized Node has no address.",
			Do:  "grant update and patch of nodes, and patch of nodes/status",
			Links: []string{
				"oracle/oci-cloud-controller-manager#97",
				"kubernetes/kubernetes#54965",
			},
		},
		{
			ID: "D9", Title: "Missing RBAC: services and services/status", Severity: SeverityWarning,
			Why: "The finalizer and the address of a load balancer are both written through services/status.",
			Do:  "grant patch of services/status, and list and watch of services",
			Links: []string{
				"kubernetes/cloud-provider-vsphere#316",
				"kubernetes/cloud-provider-gcp#611",
			},
		},
		{
			ID: "D10", Title: "Missing RBAC: events", Severity: SeverityWarning,
			Why: "Without Events the cluster does not show why a Node or a load balancer is missing.",
			Do:  "grant create and patch of events",
			Links: []string{
				"kubernetes/cloud-provider-gcp#611",
			},
		},
		{
			ID: "D12", Title: "RBAC object has a name that others use", Severity: SeverityWarning,
			Why: "A distribution, or another vendor's manifest, replaces the permissions with its own.",
			Do:  "use a name that contains the provider's name",
			Links: []string{
				"k3s-io/k3s#3308",
			},
		},
		{
			ID: "D13", Title: "Missing RBAC: list and watch nodes", Severity: SeverityError,
			Why: "The informers of all controllers use the program's own identity, even with --use-service-account-credentials.",
			Do:  "grant get, list and watch of nodes",
		},
		{
			ID: "D14", Title: "RBAC grants every permission", Severity: SeverityWarning,
			Why: "An attacker who takes over the cloud-controller-manager controls the cluster and all of its Secrets.",
			Do:  "grant what the controllers and the provider use; `ccmadm init --dry-run` shows it",
		},
		{
			ID: "D15", Title: "RBAC binding names another ServiceAccount", Severity: SeverityError,
			Why: "The bindings in these files name a ServiceAccount that the pod does not use, or that does not exist.",
			Do:  "use the same namespace and name in the pod, the ServiceAccount and the bindings",
		},
	}
}
