package e2e

// edited changes a ConfigMap of ccmadm's by a script of sed over its JSON.
func edited(name, script string) string {
	return "kubectl -n kube-system get configmap " + name + " -o json > /root/map.json; sed '" + script + "' /root/map.json > /root/new.json\n" +
		"! cmp -s /root/map.json /root/new.json && kubectl replace -f /root/new.json"
}

// faultsOfRecords are of what ccmadm has written down.
func faultsOfRecords() []injected {
	newer, older := "s|ccmadm.dev/v1alpha1|ccmadm.dev/v1alpha9|", "s|ccmadm.dev/v1alpha9|ccmadm.dev/v1alpha1|"
	return []injected{
		{id: "O1", what: "record of a newer version", inject: edited("ccmadm-config", newer), choice: edited("ccmadm-config", older)},
		{id: "O2", what: "journal edited by hand", inject: "ccmadm apply --force\n" + edited("ccmadm-journal", `s|\\nkind: |\\n# edited\\nkind: |`)},
	}
}

// faultsOfMachines are those that a machine shows, to who looks there: doctor --host.
func faultsOfMachines() []injected {
	const (
		kubelet = "/etc/default/kubelet"
		broken  = "/etc/kubernetes/manifests/broken.yaml"
		conf    = "f=$(awk '/resolvConf:/ {print $2}' /var/lib/kubelet/config.yaml); f=$(readlink -f ${f:-/etc/resolv.conf}); "
	)
	return []injected{
		{id: "K1", what: "kubelet stopped", on: "w1", host: true, inject: "systemctl stop kubelet"},
		{
			id: "K2", what: "flag in a file, and the kubelet not started again", on: "w1", host: true,
			inject: "echo KUBELET_EXTRA_ARGS=--v=3 > " + kubelet, undo: "rm " + kubelet + restartKubelet,
		},
		{id: "K3", what: "kubelet not enabled", on: "w1", host: true, inject: "systemctl disable kubelet"},
		{
			id: "K4", what: "manifest that is no YAML", on: "w1", host: true,
			inject: "mkdir -p /etc/kubernetes/manifests; printf 'kind: Pod\\n\\tx' > " + broken, choice: "rm " + broken,
		},
		{
			id: "K8", what: "resolver on loopback", on: "w1", host: true,
			inject: conf + "cp $f /root/resolv; echo nameserver 127.0.0.53 > $f", choice: conf + "cat /root/resolv > $f",
		},
		{
			id: "K9", what: "containerd hangs", on: "w1", host: true, inject: "systemctl kill -s STOP containerd",
			choice: "systemctl kill -s CONT containerd",
		},
		{
			id: "K10", what: "no room where etcd writes", on: "w1", host: true,
			inject: "mkdir -p /var/lib/etcd; mount -t tmpfs -o size=1m tmpfs /var/lib/etcd", choice: "umount /var/lib/etcd",
		},
		{
			id: "K13", what: "kube-proxy's rules of Services flushed", on: "w1", host: true,
			inject: "nft flush map ip kube-proxy service-ips",
		},
	}
}

// faultsOfClocks are of a machine whose processes have another time of day than the API server.
func faultsOfClocks() []injected {
	const (
		doctor = "/usr/local/bin/ccmadm"
		all    = " $(pidof kubelet containerd kube-proxy)"
	)
	return []injected{
		{
			id: "K7", what: "clock seven minutes ahead, which the machine shows", on: "w1", host: true,
			inject: "clock 420" + all + " && mv " + doctor + " /root/ccmadm\n" +
				"printf '#!/bin/sh\\nexec clock 420 -- /root/ccmadm \"$@\"\\n' > " + doctor + " && chmod 755 " + doctor,
			choice: "clock 0" + all + "; mv /root/ccmadm " + doctor,
		},
		{
			id: "K7", what: "clock more than three minutes behind, which the kubelet's Lease shows", on: "w1",
			inject: "clock -200" + all, choice: "clock 0" + all,
		},
	}
}
