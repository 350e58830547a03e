package finding

// placement is about where the pods of a cloud-controller-manager run, and what keeps them from it.
func placement() []Kind {
	return []Kind{
		{
			ID: "A15", Title: "Static pod refers to the API", Severity: SeverityError,
			Why: "Kubelets from 1.34 on refuse a static pod that names a ServiceAccount, a Secret or a ConfigMap.",
			Do:  "mount files of the machine (hostPath), among them a kubeconfig for the pod's own identity",
			Links: []string{
				"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/config/common.go",
			},
		},
		{
			ID: "B1", Safe: true, Title: "No toleration for uninitialized", Severity: SeverityError,
			Why: "Every node has this taint until the cloud-controller-manager has initialized it: without a " +
				"toleration it waits for itself.",
			Do: "tolerate the taint by its key, with operator Exists",
			Links: []string{
				"https://kubernetes.io/blog/2025/02/14/cloud-controller-manager-chicken-egg-problem/",
			},
		},
		{
			ID: "B2", Safe: true, Title: "No toleration for not-ready with effect NoSchedule", Severity: SeverityError,
			Why: "Nodes are not ready before there is a CNI. A DaemonSet tolerates this taint by itself only with " +
				"effect NoExecute.",
			Do: "tolerate the taint by its key, with operator Exists",
			Links: []string{
				"digitalocean/digitalocean-cloud-controller-manager#139",
				"kubernetes/cloud-provider-vsphere#339",
			},
		},
		{
			ID: "B3", Safe: true, Title: "No toleration for control-plane", Severity: SeverityError,
			Why: "At first there are only control-plane nodes. The old taint of the name master is gone since " +
				"Kubernetes 1.25.",
			Do: "tolerate the taint by its key, with operator Exists",
			Links: []string{
				"kubernetes-sigs/cloud-provider-azure#4901",
			},
		},
		{
			ID: "B4", Title: "Selects nodes that kubeadm does not make", Severity: SeverityError,
			Why: "kubeadm labels control planes with node-role.kubernetes.io/control-plane and an empty value; the " +
				"label master is gone since 1.24.",
			Do: "select node-role.kubernetes.io/control-plane by existence, or with the empty value",
			Links: []string{
				"kubernetes/cloud-provider-aws#430",
				"linode/linode-cloud-controller-manager#176",
			},
		},
		{
			ID: "B5", Title: "Two pods for the ports of one machine", Severity: SeverityWarning,
			Why: "With hostNetwork, two pods cannot run on one machine. On a single control plane an update that " +
				"starts the new pod first never ends, and a second replica stays Pending.",
			Do: "maxSurge: 0 and maxUnavailable: 1; one replica for each control plane",
		},
	}
}

// admission is about what the API server and a machine would refuse.
func admission() []Kind {
	return []Kind{
		{
			ID: "B6", Title: "Namespace forbids host network", Severity: SeverityError,
			Why: "Pod security levels baseline and restricted refuse pods with hostNetwork.",
			Do:  "use kube-system, or label the namespace pod-security.kubernetes.io/enforce: privileged",
			Links: []string{
				"openshift/cluster-cloud-controller-manager-operator#202",
			},
		},
		{
			ID: "B18", Title: "Image without a version", Severity: SeverityWarning,
			Why: "What runs changes with every pull, and a cloud-controller-manager fits one minor version of " +
				"Kubernetes.",
			Do: "name the tag of the release for your Kubernetes",
		},
		{
			ID: "B19", Title: "API version is gone", Severity: SeverityError,
			Why: "The API server refuses the object.",
			Do:  "use the version that is served",
			Links: []string{
				"https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
			},
		},
		{
			ID: "F2", Title: "No toleration for network-unavailable", Severity: SeverityWarning,
			Why: "Where cloud routes are in use, a node has this taint until the cloud-controller-manager has made " +
				"its route. Only pods of a DaemonSet with hostNetwork tolerate it by themselves.",
			Do: "tolerate the taint by its key, with operator Exists",
			Links: []string{
				"kubernetes/kubernetes#73777",
			},
		},
	}
}

// network is about what they need of the network before there is one.
func network() []Kind {
	return []Kind{
		{
			ID: "C1", Title: "Not on the host network", Severity: SeverityWarning,
			Why: "A pod network needs a CNI, and some of those wait for what the cloud-controller-manager tells about " +
				"the nodes.",
			Do: "hostNetwork: true",
			Links: []string{
				"rancher/rke2-charts#268",
			},
		},
		{
			ID: "C2", Title: "Reaches the API server through the service address only", Severity: SeverityWarning,
			Why: "That works once kube-proxy does. Where a CNI replaces kube-proxy it does not, and the program gives " +
				"up after 10 seconds.",
			Do: "set KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT to the control-plane endpoint, or mount a " +
				"kubeconfig",
			Links: []string{
				"hetznercloud/hcloud-cloud-controller-manager#971",
				"kubernetes/kubernetes#49017",
			},
		},
		{
			ID: "C3", Title: "Asks the cluster's DNS", Severity: SeverityError,
			Why: "CoreDNS cannot be scheduled before the nodes are initialized, and the cloud's API cannot be found " +
				"without a name server.",
			Do: "dnsPolicy: Default",
			Links: []string{
				"kubernetes/kubernetes#93533",
				"hetznercloud/hcloud-cloud-controller-manager#560",
			},
		},
	}
}
