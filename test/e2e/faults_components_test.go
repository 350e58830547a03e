package e2e

import "time"

// faultsOfComponents are deviations from what kubeadm's clusters consist of: no detector knows their causes.
func faultsOfComponents() []injected {
	const manifest = "/etc/kubernetes/manifests/kube-controller-manager.yaml"
	return []injected{
		{
			id: "K14", what: "firewall between a worker and the API server", on: "w1", host: true, within: 2 * time.Minute,
			inject: "nft add table ip wall; nft add chain ip wall output '{ type filter hook output priority 0; }'; nft add rule ip wall output tcp dport 6443 drop",
			choice: "nft delete table ip wall",
		},
		{id: "K15", what: "forwarding switched off on a worker", on: "w1", host: true, inject: "sysctl -qw net.ipv4.ip_forward=0"},
		{
			id: "Q1", what: "kube-proxy selects no Node", within: 2 * time.Minute,
			inject: `kubectl -n kube-system patch daemonset kube-proxy -p '{"spec":{"template":{"spec":{"nodeSelector":{"no":"such"}}}}}'`,
		},
		{
			id: "Q2", what: "kube-controller-manager with a flag that it does not know", within: 3 * time.Minute,
			inject: "sed -i 's/^    - --bind-address=.*/&\\n    - --no-such-flag/' " + manifest, choice: "sed -i /no-such-flag/d " + manifest,
		},
		{
			id: "Q1", what: "manifest of kube-scheduler is gone", within: 2 * time.Minute,
			inject: "mv /etc/kubernetes/manifests/kube-scheduler.yaml /root/", undo: "rm /root/kube-scheduler.yaml",
		},
		{id: "Q1", what: "CoreDNS scaled to zero", within: 2 * time.Minute, inject: "kubectl -n kube-system scale deployment/coredns --replicas=0"},
		{
			id: "Q2", what: "CoreDNS with a Corefile that it cannot read", within: 3 * time.Minute,
			inject: `kubectl -n kube-system patch deployment coredns --type=json -p '[{"op":"replace","path":"/spec/template/spec/containers/0/args","value":["-conf","/nowhere"]}]'`,
			choice: "kubectl -n kube-system rollout undo deployment/coredns",
		},
		{
			id: "Q1", what: "quota keeps kube-proxy from a Node", within: 3 * time.Minute,
			inject: "kubectl -n kube-system create quota none --hard=pods=0; " +
				"kubectl -n kube-system delete pod -l k8s-app=kube-proxy --field-selector spec.nodeName=w1",
			choice: "kubectl -n kube-system delete quota none",
		},
	}
}
