package e2e

import (
	"os"
	"strings"
	"testing"
	"time"
)

// openstackOf is the lab's name of OpenStack's controller manager, in the release that the profile has for a minor.
func openstackOf(minor string) string {
	older := "openstack-" + minor
	if _, err := os.Stat("../lab/ccm-" + older); err != nil { // the newest has no minor in its name
		return "openstack"
	}
	return older
}

// TestUpgrade_RealCCM: OpenStack's own controller manager comes from the release for one minor to that for the next, by
// the profile's table. No Node is lost, each stays what the cloud says of it, and a machine that joins afterwards is
// initialized by the next release.
func TestUpgrade_RealCCM(t *testing.T) {
	t.Parallel()
	l := upOld(t, "uprealccm", 1, 3) // w2 plays the cloud
	l.loadCCM(t, openstackOf(l.step.from))
	state, want := cloudState{Region: "RegionOne", Key: cloudKey}, map[string]wantNode{}
	for node, id := range map[string]string{
		"cp1": "6d5f3c4e-0000-4000-8000-000000000001", "w1": "6d5f3c4e-0000-4000-8000-000000000002",
		"w3": "6d5f3c4e-0000-4000-8000-000000000003",
	} {
		address := l.address(t, node)
		state.Machines = append(state.Machines, cloudMachine{
			ID: id, Name: node, Address: address, Zone: "nova", Type: "m1.large", State: "running",
		})
		want[node] = wantNode{"openstack:///" + id, "nova", "RegionOne", "m1.large", address}
	}
	endpoint := "http://" + l.startCloud(t, state)
	l.must(t, "cp1", withAudit+" && mv /etc/lab/audited.yaml "+kubeadmYAML)
	l.configure(t, "provider: openstack\ncloudConfig: {file: "+cloudConf+"}\n",
		map[string]string{cloudConf: strings.ReplaceAll(openstackConfig, "ENDPOINT", endpoint)})
	l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, realConfig, 1))
	l.must(t, "w1", l.joinCommand(t))
	l.connectPods(t, "cp1", "w1")
	for _, node := range []string{"cp1", "w1"} {
		l.expectNode(t, node, want[node])
	}
	manager := func(minor string) string {
		return "grep 'image: .*/openstack-cloud-controller-manager:v" + minor + ".' " + ccmManifest
	}
	t.Logf("before: %s", l.must(t, "cp1", manager(l.step.from)))
	before := l.nodesNow(t)

	l.bring(t, l.step.to)
	l.loadCCM(t, openstackOf(l.step.to))
	l.writeFiles(t, map[string]string{"/root/upgrade.yaml": upgradeConfiguration})
	l.must(t, "cp1", "mv /usr/bin/kubeadm.new /usr/bin/kubeadm")
	start := time.Now()
	t.Logf("%s", l.upgradeDespiteProxy(t, "cp1", l.step.apply()+" --config /root/upgrade.yaml"))
	t.Logf("after: %s", l.must(t, "cp1", manager(l.step.to)))
	l.expectLedThroughout(t, start, leaseLimitAlone, "cp1")

	l.must(t, "w3", "cd /usr/bin; for p in kubeadm kubelet kubectl; do mv $p.new $p; done")
	l.must(t, "w3", l.joinCommand(t))
	for node := range want {
		l.expectNode(t, node, want[node])
	}
	after := l.nodesNow(t)
	for _, node := range []string{"cp1", "w1"} {
		if after[node].UID != before[node].UID {
			t.Errorf("Node/%s was lost on the way", node)
		}
	}
	l.expectNothingForbiddenInLog(t)
}
