package e2e

import (
	"testing"
	"time"
)

// TestUpgrade_Ways: two control planes, each with a static pod of the manager, and a worker. From the first one, the
// second is upgraded in a pod, and the worker over SSH. No manager is ever newer than the API server of its machine.
func TestUpgrade_Ways(t *testing.T) {
	t.Parallel()
	l := upOld(t, "upgradeways", 2, 1, "--image", adoptImage)
	next := l.managers(t)
	l.beforeUpgrade(t, "")
	l.onEach(t, l.nodes, "mv /usr/bin/kubeadm.new /usr/bin/kubeadm")
	l.load(t, next)
	for _, cp := range l.controlPlanes() {
		l.watchSkew(t, cp)
	}
	const identity = "sha256sum < /etc/kubernetes/cloud-controller-manager.conf"
	former := l.must(t, "cp2", identity)
	command, start := l.step.apply()+" --config /root/upgrade.yaml", time.Now()

	byPods := l.upgradeDespiteProxy(t, "cp1", command+" --via pods --skip w1")
	t.Logf("%s", byPods)
	expectSaid(t, byPods, "[others] cp2: [control-plane] "+ccmManifest+" written", "[others] cp2: done in ")
	l.expectManagers(t, l.step.next(), "cp1", "cp2")
	if l.must(t, "cp2", identity) == former {
		t.Error("the certificate of the manager on cp2 was not renewed")
	}
	l.must(t, "w1", "! grep upgraded: /etc/ccmadm/machine.yaml")

	l.serveSSH(t, "cp2", "w1")
	bySSH := l.upgradeDespiteProxy(t, "cp1", command+" --via ssh")
	t.Logf("%s", bySSH)
	expectSaid(t, bySSH, "[others] cp2: [kubeadm] unchanged: ", "[others] cp2: done in ",
		"[others] w1: [kubeadm] running kubeadm upgrade node", "[others] w1: done in ")
	for _, node := range []string{"cp2", "w1"} {
		l.must(t, node, "grep 'upgraded: "+l.step.version+"' /etc/ccmadm/machine.yaml && ! ls /etc/ccmadm/upgrade.yaml")
	}
	l.expectLedThroughout(t, start, leaseLimit, l.controlPlanes()...)
	for _, cp := range l.controlPlanes() {
		l.expectNeverNewer(t, cp)
	}
	l.expectInitialized(t, l.nodes...)
}
