package finding

// process is about the program and its arguments.
func process() []Kind {
	return []Kind{
		{
			ID: "B10", Title: "Two programs on one port", Severity: SeverityError,
			Why: "With hostNetwork the second one ends with: address already in use.",
			Do:  "give one of them another --secure-port",
			Links: []string{
				"rancher/rke2#1844",
			},
		},
		{
			ID: "B11", Title: "Webhook port is the secure port", Severity: SeverityError,
			Why: "The program refuses to start.",
			Do:  "--webhook-secure-port=0, unless webhooks are served",
			Links: []string{
				"kubernetes/cloud-provider-vsphere#885",
			},
		},
		{
			ID: "B12", Title: "Probe does not match the arguments", Severity: SeverityError,
			Why: "The kubelet restarts a cloud-controller-manager that works. It serves HTTPS on --secure-port at " +
				"--bind-address, and only /healthz.",
			Do: "scheme: HTTPS, path: /healthz, the port of --secure-port (10258), and host: 127.0.0.1 if it listens " +
				"there",
			Links: []string{
				"openshift/cluster-cloud-controller-manager-operator#355",
				"kubernetes-sigs/cloud-provider-azure#3993",
			},
		},
		{
			ID: "B13", Title: "Flag is gone", Severity: SeverityError,
			Why: "The program ends with: unknown flag.",
			Do:  "remove the flag",
			Links: []string{
				"kubernetes-sigs/cloud-provider-azure#3993",
			},
		},
		{
			ID: "B14", Title: "Unknown controller", Severity: SeverityError,
			Why: "The program ends with: is not in the list of known controllers.",
			Do: "use cloud-node-controller, cloud-node-lifecycle-controller, service-lb-controller, " +
				"node-route-controller",
			Links: []string{
				"https://github.com/kubernetes/cloud-provider/blob/v0.36.3/names/controller_names.go",
			},
		},
		{
			ID: "B15", Title: "No provider", Severity: SeverityError,
			Why: "external is what kubelets are told; the cloud-controller-manager is the provider itself.",
			Do:  "--cloud-provider=NAME of the provider",
			Links: []string{
				"kubernetes/cloud-provider-openstack#541",
			},
		},
		{
			ID: "B20", Title: "Provider has ended", Severity: SeverityWarning,
			Why: "The service or its support is over: its API answers no more, and no release is made for newer versions of Kubernetes.",
			Do:  "use the provider that the message names",
		},
	}
}

// leading is about what many have in common: locks, clusters, names.
func leading() []Kind {
	return []Kind{
		{
			ID: "B16", Title: "Unknown kind of leader lock", Severity: SeverityError,
			Why: "Leases are the only lock left, and the program refuses any other.",
			Do:  "remove --leader-elect-resource-lock",
		},
		{
			ID: "B17", Title: "Cluster ID is asked for", Severity: SeverityError,
			Why: "The program ends with: no ClusterID found. The provider has none, or its machines do not carry the " +
				"cluster's.",
			Do: "--allow-untagged-cloud=true where the provider has none; else give the machines the cluster's tag, or " +
				"the cloud configuration its ID",
			Links: []string{
				"https://github.com/kubernetes/cloud-provider/blob/v0.36.3/app/controllermanager.go",
			},
		},
		{
			ID: "D2", Title: "Cloud configuration is not mounted", Severity: SeverityError,
			Why: "The program ends when it cannot open the file of --cloud-config.",
			Do:  "mount the file's directory, or correct the path",
			Links: []string{
				"kubernetes/kubernetes#42483",
			},
		},
		{
			ID: "G6", Title: "Cluster name is the one that all share", Severity: SeverityWarning,
			Why: "Load balancers and routes are told apart by it: two clusters in one account take over or delete " +
				"each other's.",
			Do: "--cluster-name with a name of its own, before there are load balancers: a later change orphans them",
			Links: []string{
				"kubernetes/cloud-provider-openstack#1273",
				"kubernetes/cloud-provider-openstack#2241",
			},
		},
		{
			ID: "H3", Title: "Several leaders", Severity: SeverityWarning,
			Why: "More than one pod can run and none waits for the other: both do everything.",
			Do:  "--leader-elect=true",
		},
	}
}

// routes is about routes and pod networks.
func routes() []Kind {
	return []Kind{
		{
			ID: "F1", Title: "Routes without a pod network", Severity: SeverityWarning,
			Why: "--configure-cloud-routes is true unless it is set. With a provider that has routes and without " +
				"--cluster-cidr the program ends, and the other controllers with it.",
			Do: "--configure-cloud-routes=false, or --cluster-cidr=POD NETWORK",
			Links: []string{
				"hetznercloud/hcloud-cloud-controller-manager#630",
			},
		},
		{
			ID: "F6", Title: "Two allocators of pod networks", Severity: SeverityWarning,
			Why: "With networking.podSubnet kubeadm lets kube-controller-manager allocate. If this one does too, two " +
				"nodes can get the same pod network.",
			Do: "--allocate-node-cidrs=false here, or in kubeadm's controllerManager.extraArgs",
			Links: []string{
				"kubernetes/kubernetes#105240",
				"kubermatic/kubeone#2106",
			},
		},
	}
}
