package lint

import "slices"

// Rules lists everything that is looked for in manifests, by ID.
func Rules() []Rule {
	return slices.Concat(placementRules(), networkRules(), processRules(), identityRules(), routeRules())
}

func placementRules() []Rule {
	return []Rule{
		{
			ID: "A15", Title: "Static pod refers to the API", Severity: Error, workload: staticPod,
			Why:   "Kubelets from 1.34 on refuse a static pod that names a ServiceAccount, a Secret or a ConfigMap.",
			Do:    "mount files of the machine (hostPath), among them a kubeconfig for the pod's own identity",
			Links: []string{"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/config/common.go"},
		},
		{
			ID: "B1", Title: "No toleration for uninitialized", Severity: Error, workload: tolerates(uninitialized),
			Why:   "Every node has this taint until the cloud-controller-manager has initialized it: without a toleration it waits for itself.",
			Do:    "tolerate the taint by its key, with operator Exists",
			Links: []string{"https://kubernetes.io/blog/2025/02/14/cloud-controller-manager-chicken-egg-problem/"},
		},
		{
			ID: "B2", Title: "No toleration for not-ready with effect NoSchedule", Severity: Error, workload: tolerates(notReady),
			Why:   "Nodes are not ready before there is a CNI. A DaemonSet tolerates this taint by itself only with effect NoExecute.",
			Do:    "tolerate the taint by its key, with operator Exists",
			Links: []string{"digitalocean/digitalocean-cloud-controller-manager#139", "kubernetes/cloud-provider-vsphere#339"},
		},
		{
			ID: "B3", Title: "No toleration for control-plane", Severity: Error, workload: tolerates(controlPlane),
			Why:   "At first there are only control-plane nodes. The old taint of the name master is gone since Kubernetes 1.25.",
			Do:    "tolerate the taint by its key, with operator Exists",
			Links: []string{"kubernetes-sigs/cloud-provider-azure#4901"},
		},
		{
			ID: "B4", Title: "Selects nodes that kubeadm does not make", Severity: Error, workload: selector,
			Why:   "kubeadm labels control planes with node-role.kubernetes.io/control-plane and an empty value; the label master is gone since 1.24.",
			Do:    "select node-role.kubernetes.io/control-plane by existence, or with the empty value",
			Links: []string{"kubernetes/cloud-provider-aws#430", "linode/linode-cloud-controller-manager#176"},
		},
		{
			ID: "B5", Title: "Two pods for the ports of one machine", Severity: Warning, workload: oneMachine,
			Why: "With hostNetwork, two pods cannot run on one machine. On a single control plane an update that starts the new pod first never ends, and a second replica stays Pending.",
			Do:  "maxSurge: 0 and maxUnavailable: 1; one replica for each control plane",
		},
		{
			ID: "B6", Title: "Namespace forbids host network", Severity: Error, workload: podSecurity, Links: []string{"openshift/cluster-cloud-controller-manager-operator#202"},
			Why: "Pod security levels baseline and restricted refuse pods with hostNetwork.",
			Do:  "use kube-system, or label the namespace pod-security.kubernetes.io/enforce: privileged",
		},
		{
			ID: "B18", Title: "Image without a version", Severity: Warning, workload: imageTag,
			Why: "What runs changes with every pull, and a cloud-controller-manager fits one minor version of Kubernetes.",
			Do:  "name the tag of the release for your Kubernetes",
		},
		{
			ID: "B19", Title: "API version is gone", Severity: Error, set: apiVersions, Links: []string{"https://kubernetes.io/docs/reference/using-api/deprecation-guide/"},
			Why: "The API server refuses the object.",
			Do:  "use the version that is served",
		},
		{
			ID: "F2", Title: "No toleration for network-unavailable", Severity: Warning, workload: networkUnavailable,
			Why:   "Where cloud routes are in use, a node has this taint until the cloud-controller-manager has made its route. Only pods of a DaemonSet with hostNetwork tolerate it by themselves.",
			Do:    "tolerate the taint by its key, with operator Exists",
			Links: []string{"kubernetes/kubernetes#73777"},
		},
	}
}

func networkRules() []Rule {
	return []Rule{
		{
			ID: "C1", Title: "Not on the host network", Severity: Error, workload: hostNetwork,
			Why: "A pod network needs a CNI, and some of those wait for what the cloud-controller-manager tells about the nodes.",
			Do:  "hostNetwork: true", Links: []string{"rancher/rke2-charts#268"},
		},
		{
			ID: "C2", Title: "Reaches the API server through the service address only", Severity: Warning, workload: apiServer,
			Why:   "That works once kube-proxy does. Where a CNI replaces kube-proxy it does not, and the program gives up after 10 seconds.",
			Do:    "set KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT to the control-plane endpoint, or mount a kubeconfig",
			Links: []string{"hetznercloud/hcloud-cloud-controller-manager#971", "kubernetes/kubernetes#49017"},
		},
		{
			ID: "C3", Title: "Asks the cluster's DNS", Severity: Error, workload: dnsPolicy,
			Why:   "CoreDNS cannot be scheduled before the nodes are initialized, and the cloud's API cannot be found without a name server.",
			Do:    "dnsPolicy: Default",
			Links: []string{"kubernetes/kubernetes#93533", "hetznercloud/hcloud-cloud-controller-manager#560"},
		},
	}
}

func processRules() []Rule {
	return []Rule{
		{
			ID: "B10", Title: "Two programs on one port", Severity: Error, set: samePort, Links: []string{"rancher/rke2#1844"},
			Why: "With hostNetwork the second one ends with: address already in use.",
			Do:  "give one of them another --secure-port",
		},
		{
			ID: "B11", Title: "Webhook port is the secure port", Severity: Error, workload: webhookPort, Links: []string{"kubernetes/cloud-provider-vsphere#885"},
			Why: "The program refuses to start.",
			Do:  "--webhook-secure-port=0, unless webhooks are served",
		},
		{
			ID: "B12", Title: "Probe does not match the arguments", Severity: Error, workload: probes,
			Why:   "The kubelet restarts a cloud-controller-manager that works. It serves HTTPS on --secure-port at --bind-address, and only /healthz.",
			Do:    "scheme: HTTPS, path: /healthz, the port of --secure-port (10258), and host: 127.0.0.1 if it listens there",
			Links: []string{"openshift/cluster-cloud-controller-manager-operator#355", "kubernetes-sigs/cloud-provider-azure#3993"},
		},
		{
			ID: "B13", Title: "Flag is gone", Severity: Error, workload: removedFlags, Links: []string{"kubernetes-sigs/cloud-provider-azure#3993"},
			Why: "The program ends with: unknown flag.",
			Do:  "remove the flag",
		},
		{
			ID: "B14", Title: "Unknown controller", Severity: Error, workload: controllers, Links: []string{"https://github.com/kubernetes/cloud-provider/blob/v0.36.3/names/controller_names.go"},
			Why: "The program ends with: is not in the list of known controllers.",
			Do:  "use cloud-node-controller, cloud-node-lifecycle-controller, service-lb-controller, node-route-controller",
		},
		{
			ID: "B15", Title: "No provider", Severity: Error, workload: provider, Links: []string{"kubernetes/cloud-provider-openstack#541"},
			Why: "external is what kubelets are told; the cloud-controller-manager is the provider itself.",
			Do:  "--cloud-provider=NAME of the provider",
		},
		{
			ID: "B16", Title: "Unknown kind of leader lock", Severity: Error, workload: resourceLock,
			Why: "Leases are the only lock left, and the program refuses any other.",
			Do:  "remove --leader-elect-resource-lock",
		},
		{
			ID: "B17", Title: "Cluster ID is asked for", Severity: Error, workload: untagged, Links: []string{"https://github.com/kubernetes/cloud-provider/blob/v0.36.3/app/controllermanager.go"},
			Why: "The provider has no cluster IDs, and without the flag the program ends with: no ClusterID found.",
			Do:  "--allow-untagged-cloud=true",
		},
		{
			ID: "D2", Title: "Cloud configuration is not mounted", Severity: Error, workload: cloudConfig, Links: []string{"kubernetes/kubernetes#42483"},
			Why: "The program ends when it cannot open the file of --cloud-config.",
			Do:  "mount the file's directory, or correct the path",
		},
		{
			ID: "G6", Title: "Cluster name is the one that all share", Severity: Warning, workload: clusterName,
			Why:   "Load balancers and routes are told apart by it: two clusters in one account take over or delete each other's.",
			Do:    "--cluster-name with a name of its own, before there are load balancers: a later change orphans them",
			Links: []string{"kubernetes/cloud-provider-openstack#1273", "kubernetes/cloud-provider-openstack#2241"},
		},
		{
			ID: "H3", Title: "Several leaders", Severity: Warning, workload: leaderElection,
			Why: "More than one pod can run and none waits for the other: both do everything.",
			Do:  "--leader-elect=true",
		},
	}
}

func routeRules() []Rule {
	return []Rule{
		{
			ID: "F1", Title: "Routes without a pod network", Severity: Warning, workload: routes,
			Why:   "--configure-cloud-routes is true unless it is set. With a provider that has routes and without --cluster-cidr the program ends, and the other controllers with it.",
			Do:    "--configure-cloud-routes=false, or --cluster-cidr=POD NETWORK",
			Links: []string{"hetznercloud/hcloud-cloud-controller-manager#630"},
		},
		{
			ID: "F6", Title: "Two allocators of pod networks", Severity: Warning, workload: allocator,
			Why:   "With networking.podSubnet kubeadm lets kube-controller-manager allocate. If this one does too, two nodes can get the same pod network.",
			Do:    "--allocate-node-cidrs=false here, or in kubeadm's controllerManager.extraArgs",
			Links: []string{"kubernetes/kubernetes#105240", "kubermatic/kubeone#2106"},
		},
	}
}

func identityRules() []Rule {
	return []Rule{
		{
			ID: "D5", Title: "May not read how callers are authenticated", Severity: Warning, set: authentication,
			Why:   "Unless its code skips the look-up, the program ends with: configmaps extension-apiserver-authentication is forbidden.",
			Do:    "bind the Role extension-apiserver-authentication-reader in kube-system, or --authentication-skip-lookup=true",
			Links: []string{"linode/linode-cloud-controller-manager#91", "kubernetes/cloud-provider#34"},
		},
		{
			ID: "D6", Title: "May not elect a leader", Severity: Error, set: permissions("D6"), Links: []string{"digitalocean/digitalocean-cloud-controller-manager#397"},
			Why: "No controller ever starts.",
			Do:  "grant get, create and update of leases in coordination.k8s.io",
		},
		{
			ID: "D7", Title: "May not use the controllers' accounts", Severity: Error, set: accountRights, Links: []string{"kubernetes/cloud-provider-openstack#1514"},
			Why: "With --use-service-account-credentials each controller asks for a token of its own.",
			Do:  "grant create of serviceaccounts/token, get and create of serviceaccounts; or drop the flag",
		},
		{
			ID: "D8", Title: "May not write Nodes", Severity: Error, set: permissions("D8"),
			Why:   "Without update of nodes the taint stays. Without patch of nodes/status a node is initialized and yet has no address.",
			Do:    "grant update and patch of nodes, and patch of nodes/status",
			Links: []string{"oracle/oci-cloud-controller-manager#97", "kubernetes/kubernetes#54965"},
		},
		{
			ID: "D9", Title: "May not write Services", Severity: Warning, set: permissions("D9"),
			Why:   "The finalizer and the address of a load balancer are both written through services/status.",
			Do:    "grant patch of services/status, and list and watch of services",
			Links: []string{"kubernetes/cloud-provider-vsphere#316", "kubernetes/cloud-provider-gcp#611"},
		},
		{
			ID: "D10", Title: "May not write events", Severity: Warning, set: permissions("D10"), Links: []string{"kubernetes/cloud-provider-gcp#611"},
			Why: "Nothing says why a node or a load balancer is not there.",
			Do:  "grant create and patch of events",
		},
		{
			ID: "D12", Title: "RBAC under a name that others use too", Severity: Warning, set: sharedNames, Links: []string{"k3s-io/k3s#3308"},
			Why: "A distribution, or another vendor's manifest, replaces the permissions with its own.",
			Do:  "use a name with the provider's in it",
		},
		{
			ID: "D13", Title: "May not list Nodes", Severity: Error, set: permissions("D13"),
			Why: "The informers of all controllers use the program's own identity, even with --use-service-account-credentials.",
			Do:  "grant get, list and watch of nodes",
		},
		{
			ID: "D14", Title: "May do everything", Severity: Warning, set: everything,
			Why: "Whoever takes over the cloud-controller-manager has the cluster, with all of its Secrets.",
			Do:  "grant what the controllers and the provider use; `ccmadm init` shows it with --dry-run",
		},
		{
			ID: "D15", Title: "Permissions for somebody else", Severity: Error, set: unbound,
			Why: "The bindings in these files name another ServiceAccount than the pod has, or one that is not there.",
			Do:  "make the pod, the ServiceAccount and the bindings say the same namespace and name",
		},
	}
}
