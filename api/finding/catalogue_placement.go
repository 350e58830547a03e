package finding

// placement is about where the pods of a cloud-controller-manager run, and what keeps them from it.
func placement() []Kind {
	return []Kind{
		{
			ID: "A15", Title: "Static pod references API objects", Severity: SeverityError,
			Why: "Kubelets from 1.34 on refuse a static pod that references a ServiceAccount, a Secret or a ConfigMap.",
			Do:  "mount files of the machine (hostPath), among them a kubeconfig with the pod's own identity",
			Links: []string{
				"https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/kubelet/config/common.go",
			},
		},
		{
			ID: "B1", Safe: true, Title: "Toleration for the uninitialized taint is missing", Severity: SeverityError,
			Why: "Every Node has this taint until the cloud-controller-manager has initialized it, so without a toleration the pod " +
				"waits for itself.",
			Do: "tolerate the taint by its key, with operator Exists",
			Links: []string{
				"https://kubernetes.io/blog/2025/02/14/cloud-controller-manager-chicken-egg-problem/",
			},
		},
		{
			ID: "B2", Safe: true, Title: "Toleration for the not-ready taint with effect NoSchedule is missing", Severity: SeverityError,
			Why: "Nodes are not ready before a CNI plugin runs, and a DaemonSet tolerates this taint by itself only with effect NoExecute.",
			Do:  "tolerate the taint by its key, with operator Exists",
			Links: []string{
				"digitalocean/digitalocean-cloud-controller-manager#139",
				"kubernetes/cloud-provider-vsphere#339",
			},
		},
		{
			ID: "B3", Safe: true, Title: "Toleration for the control-plane taint is missing", Severity: SeverityError,
			Why: "At first there are only control-plane Nodes; the older taint, master, was removed in Kubernetes 1.25.",
			Do:  "tolerate the taint by its key, with operator Exists",
			Links: []string{
				"kubernetes-sigs/cloud-provider-azure#4901",
			},
		},
		{
			ID: "B4", Title: "Node selector matches no Node that kubeadm creates", Severity: SeverityError,
			Why: "kubeadm labels control planes with node-role.kubernetes.io/control-plane and an empty value; the label master was " +
				"removed in 1.24.",
			Do: "select node-role.kubernetes.io/control-plane by existence, or with the empty value",
			Links: []string{
				"kubernetes/cloud-provider-aws#430",
				"linode/linode-cloud-controller-manager#176",
			},
		},
		{
			ID: "B5", Title: "Two pods need the same host ports on one machine", Severity: SeverityWarning,
			Why: "With hostNetwork two such pods cannot run on one machine: on a single control plane an update that starts the new " +
				"pod first never finishes, and a second replica stays Pending.",
			Do: "set maxSurge: 0 and maxUnavailable: 1, and one replica for each control plane",
		},
	}
}

// admission is about what the API server and a machine would refuse.
func admission() []Kind {
	return []Kind{
		{
			ID: "B6", Title: "Namespace forbids hostNetwork", Severity: SeverityError,
			Why: "Pod Security levels baseline and restricted refuse pods with hostNetwork.",
			Do:  "use kube-system, or label the namespace pod-security.kubernetes.io/enforce: privileged",
			Links: []string{
				"openshift/cluster-cloud-controller-manager-operator#202",
			},
		},
		{
			ID: "B18", Title: "Image has no version tag", Severity: SeverityWarning,
			Why: "The program changes with every pull, and a cloud-controller-manager fits one minor version of Kubernetes.",
			Do:  "use the tag of the release for your Kubernetes version",
		},
		{
			ID: "B19", Title: "API version is no longer served", Severity: SeverityError,
			Why: "The API server refuses the object.",
			Do:  "use the version that is served",
			Links: []string{
				"https://kubernetes.io/docs/reference/using-api/deprecation-guide/",
			},
		},
		{
			ID: "F2", Title: "Toleration for the network-unavailable taint is missing", Severity: SeverityWarning,
			Why: "Where cloud routes are used, a Node has this taint until the cloud-controller-manager has created its route, and " +
				"only DaemonSet pods with hostNetwork tolerate it by themselves.",
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
			ID: "C1", Title: "Pod is not on the host network", Severity: SeverityWarning,
			Why: "A pod network needs a CNI plugin, and some CNI plugins wait for data that the cloud-controller-manager writes to Nodes.",
			Do:  "set hostNetwork: true",
			Links: []string{
				"rancher/rke2-charts#268",
			},
		},
		{
			ID: "C2", Title: "API server is reached through its Service address only", Severity: SeverityWarning,
			Why: "The Service address works only once kube-proxy does; where a CNI plugin replaces kube-proxy, the program exits " +
				"after 10 seconds.",
			Do: "set KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT to the control-plane endpoint, or mount a kubeconfig",
			Links: []string{
				"hetznercloud/hcloud-cloud-controller-manager#971",
				"kubernetes/kubernetes#49017",
			},
		},
		{
			ID: "C3", Title: "Pod uses the cluster's DNS", Severity: SeverityError,
			Why: "CoreDNS cannot be scheduled before Nodes are initialized, and without a name server the cloud's API cannot be resolved.",
			Do:  "set dnsPolicy: Default",
			Links: []string{
				"kubernetes/kubernetes#93533",
				"hetznercloud/hcloud-cloud-controller-manager#560",
			},
		},
	}
}
