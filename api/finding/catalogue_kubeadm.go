package finding

// PatchFile is about files in the directory of kubeadm's --patches.
const PatchFile ID = "A21"

const cloudControllers = "1.37" // kube-controller-manager does not know them by name

// kubeadmFiles are of kubeadm configurations.
func kubeadmFiles() []Kind {
	return []Kind{
		{
			ID: "A1", Title: "Kubelet is not in external mode", Severity: SeverityError,
			Why: "The kubelet registers its Node without the uninitialized taint, so the cloud-controller-manager never initializes " +
				"it; kubeadm does not pass the flag on to machines that join.",
			Do: "set nodeRegistration.kubeletExtraArgs cloud-provider=external in each InitConfiguration and JoinConfiguration",
			Links: []string{
				"kubernetes/kubeadm#1021",
				"kubernetes/kubernetes#90984",
			},
		},
		{
			ID: "A4", Title: "Kubelet names a built-in cloud provider", Severity: SeverityError,
			Why: "Kubelets have no built-in cloud providers any more, and refuse to start.",
			Do:  "set cloud-provider=external; the provider's name is an argument of the cloud-controller-manager",
			Links: []string{
				"hetznercloud/hcloud-cloud-controller-manager#853",
			},
		},
		{
			ID: "A5", Title: "Kubelet flag was removed from Kubernetes", Severity: SeverityError,
			Why: "Kubelets from 1.34 on exit with: unknown flag: --cloud-config.",
			Do:  "remove the argument",
			Links: []string{
				"kubernetes/kubernetes#130161",
				"rancher/rke2#8928",
			},
		},
		{
			ID: "A6", Title: "API server flag was removed from Kubernetes", Severity: SeverityError,
			Why: "kube-apiserver from 1.33 on exits with: unknown flag, and the control plane is down.",
			Do:  "remove the argument",
			Links: []string{
				"kubernetes/kubernetes#130162",
			},
		},
		{
			ID: "A7", Title: "kube-controller-manager names a cloud provider or allocator", Severity: SeverityError,
			Why: "Since 1.31 kube-controller-manager has no cloud controllers and one allocator, and it exits if another provider or " +
				"allocator is set.",
			Do: "remove the argument",
			Links: []string{
				"https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kube-controller-manager/app/options/options.go",
			},
		},
		{
			ID: "A18", Title: "kube-controller-manager argument has no effect", Severity: SeverityWarning,
			Why: "Since 1.31 kube-controller-manager runs no cloud controllers, whatever its arguments are.",
			Do:  "remove the argument",
		},
		{
			ID: "A9", Title: "kube-controller-manager names removed controllers", Severity: SeverityError, Since: cloudControllers,
			Why: "kube-controller-manager from " + cloudControllers + " on exits with: is not in the list of known controllers. " +
				"Earlier ones skip the cloud controllers that they had.",
			Do: "remove service-lb-controller, node-route-controller and cloud-node-lifecycle-controller from controllers, and their former " +
				"names service, route and cloud-node-lifecycle",
			Links: []string{
				"kubernetes/kubernetes#138002",
			},
		},
	}
}

// kubeadmForm is about addresses, and the form of what is written.
func kubeadmForm() []Kind {
	return []Kind{
		{
			ID: "A13", Title: "Kubelet has no --node-ip", Severity: SeverityWarning,
			Why: "In external mode a kubelet without node-ip publishes no address until the cloud-controller-manager does, so logs, " +
				"exec and pods that use status.hostIP fail until then.",
			Do: "set kubeletExtraArgs node-ip to the machine's address, or to 0.0.0.0 (::) for the address of the default route",
			Links: []string{
				"kubernetes/kubernetes#121028",
				"kubernetes/kubernetes#125348",
			},
		},
		{
			ID: "A17", Title: "Extra arguments have the form of another API version", Severity: SeverityError,
			Why: "Extra arguments are a mapping in v1beta3 and a list of name and value in v1beta4, and kubeadm refuses the other form.",
			Do:  "run `kubeadm config migrate`, or write the arguments in the form of the file's apiVersion",
			Links: []string{
				"https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/",
			},
		},
		{
			ID: "A19", Title: "Field or kind is unknown", Severity: SeverityError,
			Why: "kubeadm init and join only print a warning and ignore it; ccmadm refuses it on the machine.",
			Do:  "correct the name; if it belongs to another version, change the apiVersion or remove it",
		},
		{
			ID: "A20", Title: "kubeadm of the target version does not read this API version", Severity: SeverityError,
			Why: "Each kubeadm reads only the versions of its API that it knows, and refuses other files.",
			Do:  "run kubeadm config migrate with the newest kubeadm that reads the file",
			Links: []string{
				"kubernetes/kubernetes#136016",
			},
		},
		{
			ID: PatchFile, Reason: "PatchFile", Title: "kubeadm ignores or refuses a patch", Severity: SeverityError,
			Why: "kubeadm prints one line about a file whose name does not begin with a known target, and continues without the patch. " +
				"It fails if a patch has another form than its name says.",
			Do: "rename or correct the file; where its target is newer than the version, remove it, or use a newer version",
			Links: []string{
				"https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/control-plane-flags/#patches",
				"kubernetes/kubernetes#138090",
			},
		},
		{
			ID: "F5", Title: "Pod CIDRs are not allocated", Severity: SeverityWarning,
			Why: "With networking.podSubnet and allocate-node-cidrs=false only the cloud-controller-manager can allocate pod CIDRs; " +
				"of a network that is used up, nothing can. Without an allocator neither routes nor most CNI plugins work.",
			Do: "remove allocate-node-cidrs=false, or set --allocate-node-cidrs=true and --cluster-cidr for the cloud-controller-manager",
			Links: []string{
				"kubernetes/kubernetes#105240",
			},
		},
	}
}
