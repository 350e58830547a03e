package finding

// process is about the program and its arguments.
func process() []Kind {
	return []Kind{
		{
			ID: "B10", Title: "Two programs listen on one port", Severity: SeverityError,
			Why: "With hostNetwork the second program exits with: address already in use.",
			Do:  "set another --secure-port for one of them",
			Links: []string{
				"rancher/rke2#1844",
			},
		},
		{
			ID: "B11", Title: "Webhook port equals the secure port", Severity: SeverityError,
			Why: "The program refuses to start.",
			Do:  "set --webhook-secure-port=0, unless webhooks are served",
			Links: []string{
				"kubernetes/cloud-provider-vsphere#885",
			},
		},
		{
			ID: "B12", Title: "Probe does not match the program's arguments", Severity: SeverityError,
			Why: "The kubelet restarts a working cloud-controller-manager, because it serves HTTPS on --secure-port at " +
				"--bind-address, and only /healthz.",
			Do: "set scheme: HTTPS, path: /healthz, the port of --secure-port (10258), and host: 127.0.0.1 if it listens there",
			Links: []string{
				"openshift/cluster-cloud-controller-manager-operator#355",
				"kubernetes-sigs/cloud-provider-azure#3993",
			},
		},
		{
			ID: "B13", Title: "Flag was removed", Severity: SeverityError,
			Why: "The program exits with: unknown flag.",
			Do:  "remove the flag",
			Links: []string{
				"kubernetes-sigs/cloud-provider-azure#3993",
			},
		},
		{
			ID: "B14", Title: "Controller name is unknown", Severity: SeverityError,
			Why: "The program exits with: is not in the list of known controllers.",
			Do:  "use cloud-node-controller, cloud-node-lifecycle-controller, service-lb-controller, node-route-controller",
			Links: []string{
				"https://github.com/kubernetes/cloud-provider/blob/v0.36.3/names/controller_names.go",
			},
		},
		{
			ID: "B15", Title: "Cloud provider name is missing", Severity: SeverityError,
			Why: "external is the value for kubelets; the cloud-controller-manager needs the provider's name.",
			Do:  "set --cloud-provider=NAME of the provider",
			Links: []string{
				"kubernetes/cloud-provider-openstack#541",
			},
		},
		{
			ID: "B20", Title: "Provider is discontinued", Severity: SeverityWarning,
			Why: "The service or its support has ended: its API may not answer, and newer versions of Kubernetes get no release.",
			Do:  "use the provider that the message names",
		},
	}
}

// leading is about what many have in common: locks, clusters, names.
func leading() []Kind {
	return []Kind{
		{
			ID: "B16", Title: "Leader election lock is not a Lease", Severity: SeverityError,
			Why: "Lease is the only remaining lock type, and the program refuses any other.",
			Do:  "remove --leader-elect-resource-lock",
		},
		{
			ID: "B17", Title: "Cluster ID is missing", Severity: SeverityError,
			Why: "The program exits with: no ClusterID found, because the provider has none, or its machines lack the cluster's tag.",
			Do: "set --allow-untagged-cloud=true where the provider has none; otherwise tag the machines, or set the ID in the cloud " +
				"configuration",
			Links: []string{
				"https://github.com/kubernetes/cloud-provider/blob/v0.36.3/app/controllermanager.go",
			},
		},
		{
			ID: "D2", Title: "Cloud configuration file is not mounted", Severity: SeverityError,
			Why: "The program exits if it cannot open the file of --cloud-config.",
			Do:  "mount the file's directory, or correct the path",
			Links: []string{
				"kubernetes/kubernetes#42483",
			},
		},
		{
			ID: "G6", Title: "Cluster name is the shared default", Severity: SeverityWarning,
			Why: "Load balancers and routes are identified by the cluster name, so two clusters in one account take over or delete " +
				"each other's.",
			Do: "set a unique --cluster-name before there are load balancers: a later change orphans them",
			Links: []string{
				"kubernetes/cloud-provider-openstack#1273",
				"kubernetes/cloud-provider-openstack#2241",
			},
		},
		{
			ID: "H3", Title: "Leader election is off for several pods", Severity: SeverityWarning,
			Why: "More than one pod can run, and without leader election each of them runs all controllers.",
			Do:  "set --leader-elect=true",
		},
	}
}

// routes is about routes and pod networks.
func routes() []Kind {
	return []Kind{
		{
			ID: "F1", Title: "Routes are enabled without a pod CIDR", Severity: SeverityWarning,
			Why: "--configure-cloud-routes defaults to true, and with a provider that has routes but without --cluster-cidr the " +
				"program exits, and all its controllers with it.",
			Do: "set --configure-cloud-routes=false, or --cluster-cidr=POD NETWORK",
			Links: []string{
				"hetznercloud/hcloud-cloud-controller-manager#630",
			},
		},
		{
			ID: "F6", Title: "Pod CIDRs have two allocators", Severity: SeverityWarning,
			Why: "With networking.podSubnet kubeadm lets kube-controller-manager allocate pod CIDRs; if this program allocates too, " +
				"two Nodes can get the same one.",
			Do: "set --allocate-node-cidrs=false here: kube-controller-manager allocates them",
			Links: []string{
				"kubernetes/kubernetes#105240",
				"kubermatic/kubeone#2106",
			},
		},
	}
}
