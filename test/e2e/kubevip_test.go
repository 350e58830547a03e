package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kubeVIP is kube-vip with the manifest that it writes itself: ARP, and election by a Lease with the times that it sets
// where nobody has asked for others.
func (c *vipCluster) kubeVIP(t *testing.T) vipContender {
	t.Helper()
	dir := strings.TrimSpace(labOutput(t, "kubevip"))
	c.run(t, "load", "--name", c.name, filepath.Join(dir, "kube-vip.tar"))
	const (
		kubeconfig = "/etc/kubernetes/kube-vip.conf"
		manifest   = "/etc/kubernetes/manifests/kube-vip.yaml"
	)
	b := vipContender{
		who: "kube-vip", address: c.inSubnet(t, 202), port: 6443, watch: 35 * time.Second,
		runs: "pidof kube-vip && curl -sfk --max-time 2 https://localhost:6443/livez",
		away: "mv " + manifest + " /root/", back: "mv /root/kube-vip.yaml " + manifest,
		kill:    "pkill -9 -x kube-vip",
		explain: "ip -br address; cat " + manifest + "; tail -40 /var/log/pods/kube-system_kube-vip*/kube-vip/*.log",
	}
	// Killed, it leaves the address on the interface, and whoever has it then is a second owner.
	remove := b.away + "; while pidof kube-vip; do sleep 0.2; done; " +
		"ip address delete " + b.address.String() + "/32 dev eth0 || true"
	b.revive = remove + "; " + b.back
	for _, m := range c.controlPlanes() {
		c.run(t, "cp", "--name", c.name, filepath.Join(dir, "kube-vip"), m+":/usr/bin/kube-vip")
		// It is to reach its own API server, for which its manifest has this name. admin.conf leads to our address.
		c.must(t, m, "umask 77; sed 's|server: .*|server: https://kubernetes:6443|' /etc/kubernetes/admin.conf > "+kubeconfig)
		c.must(t, m, "kube-vip manifest pod --controlplane --arp --leaderElection --k8sConfigPath "+kubeconfig+
			" --interface eth0 --address "+b.address.String()+" > /root/kube-vip.yaml && "+b.back)
		t.Cleanup(func() { c.must(t, m, remove) })
	}
	return b
}
