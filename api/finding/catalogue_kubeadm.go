package finding

// kubeadmFiles are of kubeadm configurations.
func kubeadmFiles() []Kind {
	return []Kind{
		{
			ID: "A1", Title: "Kubelet is not in external mode", Severity: SeverityError,
			Why: "The machine registers without the taint, so the cloud-controller-manager never looks at it. kubeadm " +
				"does not carry the flag from one machine to another.",
			Do: "set nodeRegistration.kubeletExtraArgs cloud-provider=external in each InitConfiguration and " +
				"JoinConfiguration",
			Links: []string{
				"kubernetes/kubeadm#1021",
				"kubernetes/kubernetes#90984",
			},
		},
		{
			ID: "A4", Title: "Kubelet names a provider", Severity: SeverityError,
			Why: "Kubelets have no built-in providers any more, and refuse to start.",
			Do:  "set cloud-provider=external; the provider's name is for the cloud-controller-manager",
			Links: []string{
				"hetznercloud/hcloud-cloud-controller-manager#853",
			},
		},
		{
			ID: "A5", Title: "Kubelet flag is gone", Severity: SeverityError,
			Why: "Kubelets from 1.34 on end with: unknown flag: --cloud-config.",
			Do:  "remove the argument",
			Links: []string{
				"kubernetes/kubernetes#130161",
				"rancher/rke2#8928",
			},
		},
		{
			ID: "A6", Title: "API server flag is gone", Severity: SeverityError,
			Why: "kube-apiserver from 1.33 on ends with: unknown flag, and the control plane is down.",
			Do:  "remove the argument",
			Links: []string{
				"kubernetes/kubernetes#130162",
			},
		},
		{
			ID: "A7", Title: "kube-controller-manager is told of a cloud", Severity: SeverityError,
			Why: "Since 1.31 it has no cloud controllers and one allocator: it ends when it is told of another " +
				"provider or allocator.",
			Do: "remove the argument",
			Links: []string{
				"https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kube-controller-manager/app/options/options.go",
			},
		},
		{
			ID: "A18", Title: "kube-controller-manager argument has no effect", Severity: SeverityWarning,
			Why: "Since 1.31 kube-controller-manager runs no cloud controllers, whatever it is told.",
			Do:  "remove the argument",
		},
		{
			ID: "A9", Title: "Names controllers that are gone", Severity: SeverityWarning,
			Why: "kube-controller-manager skips its cloud controllers; a release that forgets their names refuses " +
				"them.",
			Do: "remove service, route and cloud-node-lifecycle from controllers",
		},
	}
}

// kubeadmForm is about addresses, and the form of what is written.
func kubeadmForm() []Kind {
	return []Kind{
		{
			ID: "A13", Title: "Kubelet has no address of its own", Severity: SeverityWarning,
			Why: "In external mode a kubelet without node-ip publishes no address until the cloud-controller-manager " +
				"does: logs, exec and pods that ask for status.hostIP fail until then.",
			Do: "set kubeletExtraArgs node-ip to the machine's address, or to 0.0.0.0 (::) for that of the default " +
				"route",
			Links: []string{
				"kubernetes/kubernetes#121028",
				"kubernetes/kubernetes#125348",
			},
		},
		{
			ID: "A17", Title: "Arguments in the form of another version", Severity: SeverityError,
			Why: "Extra arguments are a mapping in v1beta3 and a list of name and value in v1beta4. kubeadm refuses " +
				"the other.",
			Do: "run `kubeadm config migrate`, or write them as the apiVersion says",
			Links: []string{
				"https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/",
			},
		},
		{
			ID: "A19", Title: "Field or kind that nobody reads", Severity: SeverityError,
			Why: "kubeadm init and join warn of it in a line among many, and go on without what it says; ccmadm refuses " +
				"it on the machine.",
			Do: "correct the name; where it is of another version, change the apiVersion or remove it",
		},
		{
			ID: "A20", Title: "kubeadm of the version does not read this version of its API", Severity: SeverityError,
			Why: "Each kubeadm reads the versions of its API that it knows, and refuses a file of another one.",
			Do:  "have the newest kubeadm that reads it write the file in the new version: kubeadm config migrate",
			Links: []string{
				"kubernetes/kubernetes#136016",
			},
		},
		{
			ID: "F5", Title: "No pod networks are allocated", Severity: SeverityWarning,
			Why: "With networking.podSubnet and allocate-node-cidrs=false nobody but the cloud-controller-manager can " +
				"allocate, and without an allocator neither routes nor most CNIs work.",
			Do: "let the cloud-controller-manager allocate, or remove allocate-node-cidrs",
			Links: []string{
				"kubernetes/kubernetes#105240",
			},
		},
	}
}
