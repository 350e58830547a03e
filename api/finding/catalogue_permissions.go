package finding

// permissions is about RBAC.
func permissions() []Kind {
	return []Kind{
		{
			ID: "D5", Title: "May not read how callers are authenticated", Severity: SeverityWarning,
			Why: "Unless its code skips the look-up, the program ends with: configmaps " +
				"extension-apiserver-authentication is forbidden.",
			Do: "bind the Role extension-apiserver-authentication-reader in kube-system, or " +
				"--authentication-skip-lookup=true",
			Links: []string{
				"linode/linode-cloud-controller-manager#91",
				"kubernetes/cloud-provider#34",
			},
		},
		{
			ID: "D6", Title: "May not elect a leader", Severity: SeverityError,
			Why: "No controller ever starts.",
			Do:  "grant get, create and update of leases in coordination.k8s.io",
			Links: []string{
				"digitalocean/digitalocean-cloud-controller-manager#397",
			},
		},
		{
			ID: "D7", Title: "May not use the controllers' accounts", Severity: SeverityError,
			Why: "With --use-service-account-credentials each controller asks for a token of its own.",
			Do:  "grant create of serviceaccounts/token, get and create of serviceaccounts; or drop the flag",
			Links: []string{
				"kubernetes/cloud-provider-openstack#1514",
			},
		},
		{
			ID: "D8", Title: "May not write Nodes", Severity: SeverityError,
			Why: "Without update of nodes the taint stays. Without patch of nodes/status a node is initialized and " +
				"yet has no address.",
			Do: "grant update and patch of nodes, and patch of nodes/status",
			Links: []string{
				"oracle/oci-cloud-controller-manager#97",
				"kubernetes/kubernetes#54965",
			},
		},
		{
			ID: "D9", Title: "May not write Services", Severity: SeverityWarning,
			Why: "The finalizer and the address of a load balancer are both written through services/status.",
			Do:  "grant patch of services/status, and list and watch of services",
			Links: []string{
				"kubernetes/cloud-provider-vsphere#316",
				"kubernetes/cloud-provider-gcp#611",
			},
		},
		{
			ID: "D10", Title: "May not write events", Severity: SeverityWarning,
			Why: "Nothing says why a node or a load balancer is not there.",
			Do:  "grant create and patch of events",
			Links: []string{
				"kubernetes/cloud-provider-gcp#611",
			},
		},
		{
			ID: "D12", Title: "RBAC under a name that others use too", Severity: SeverityWarning,
			Why: "A distribution, or another vendor's manifest, replaces the permissions with its own.",
			Do:  "use a name with the provider's in it",
			Links: []string{
				"k3s-io/k3s#3308",
			},
		},
		{
			ID: "D13", Title: "May not list Nodes", Severity: SeverityError,
			Why: "The informers of all controllers use the program's own identity, even with " +
				"--use-service-account-credentials.",
			Do: "grant get, list and watch of nodes",
		},
		{
			ID: "D14", Title: "May do everything", Severity: SeverityWarning,
			Why: "Whoever takes over the cloud-controller-manager has the cluster, with all of its Secrets.",
			Do:  "grant what the controllers and the provider use; `ccmadm init` shows it with --dry-run",
		},
		{
			ID: "D15", Title: "Permissions for somebody else", Severity: SeverityError,
			Why: "The bindings in these files name another ServiceAccount than the pod has, or one that is not there.",
			Do:  "make the pod, the ServiceAccount and the bindings say the same namespace and name",
		},
	}
}
