package e2e

import (
	"strings"
	"testing"
)

// TestAdopt_AWS: a cluster that plain kubeadm has made on machines of EC2, which the test plays, is adopted with the
// controller manager of k8s.io/cloud-provider-aws, rehearsed before, here or in a pod. An instance that EC2 does not know
// stops it. A rollback of leave, which has removed the credentials, is given them again.
func TestAdopt_AWS(t *testing.T) {
	l := up(t, "adoptaws", 1, 2, "--image", adoptImage) // w2 plays EC2
	l.installCCM(t, "aws")
	const wName = "i-0aaaaaaaaaaaaaaa2"
	cp, w := l.address(t, "cp1"), l.address(t, "w1")
	state := cloudState{Region: "eu-central-1", Key: cloudKey, Machines: []cloudMachine{
		{
			ID: "i-0aaaaaaaaaaaaaaa1", Name: privateDNS(cp), Address: cp, Zone: "eu-central-1a", Type: "t3.large",
			State: "running", Cluster: "lab",
		},
	}}
	endpoint := "http://" + l.startCloud(t, state)
	l.must(t, "cp1", "kubeadm init --config "+kubeadmYAML+" --node-name "+privateDNS(cp)+" "+ignore)
	join := strings.TrimSpace(l.must(t, "cp1", "kubeadm token create --print-join-command 2>/dev/null"))
	l.must(t, "w1", join+" --node-name "+wName+" "+ignore)
	l.connectPods(t, privateDNS(cp), wName)
	l.configure(t, awsDocument+awsKeys, map[string]string{
		cloudConf: awsConfig(endpoint), "/tmp/credentials": awsCredentials,
	})
	l.must(t, "cp1", "sed -n '/ccmadm.dev/,$p' "+realConfig+" > /tmp/cloud.yaml")
	restarts := l.kubectl(t, podRestarts)
	adopt := "ccmadm adopt -f /tmp/cloud.yaml --via pods --yes --timeout 60s"

	t.Run("an instance that EC2 does not know stops it before anything is changed", func(t *testing.T) {
		revision := l.quietRevision(t)
		r := l.sh(t, "cp1", adopt+" --binary /usr/local/bin/ccm")
		if r.code != 3 || !strings.Contains(r.out, wName) {
			t.Errorf("exit status %d, want 3 and %s\n%s", r.code, wName, r.out)
		}
		l.expectNoWritesSince(t, revision)
		r = l.sh(t, "cp1", adopt+" --rehearse")
		if r.code != 3 || !strings.Contains(r.out, wName) {
			t.Errorf("in a pod: exit status %d, want 3 and %s\n%s", r.code, wName, r.out)
		}
		l.expectNoRehearsal(t)
		if record := l.kubectl(t, "-n kube-system get configmap ccmadm-config --ignore-not-found -o name"); record != "" {
			t.Errorf("behind a rehearsal that has failed there is %s", record)
		}
	})
	state.Machines = append(state.Machines, cloudMachine{
		ID: wName, Name: wName, Address: w, Zone: "eu-central-1b", Type: "t3.small", State: "running", Cluster: "lab",
	})
	l.setCloud(t, state)
	t.Logf("%s", l.must(t, "cp1", adopt+" --rehearse"))
	l.expectNoRehearsal(t)
	known := func() {
		t.Helper()
		l.expectNode(t, privateDNS(cp), wantNode{
			"aws:///eu-central-1a/i-0aaaaaaaaaaaaaaa1", "eu-central-1a", "eu-central-1", "t3.large", cp,
		})
		l.expectNode(t, wName, wantNode{"aws:///eu-central-1b/" + wName, "eu-central-1b", "eu-central-1", "t3.small", w})
	}
	known()
	l.expectNotRestarted(t, restarts)
	l.expectNothingForbiddenInLog(t)
	t.Logf("%s", l.must(t, "cp1", leaveByPods))
	l.expectNotRestarted(t, restarts)
	if flags := l.must(t, "w1", kubeletFlags); strings.Contains(flags, "--cloud-provider") {
		t.Errorf("behind leave the kubelet of w1 runs with %s", flags)
	}
	const back = "ccmadm rollback --via pods --yes --timeout 60s"
	if r := l.sh(t, "cp1", back); r.code != 5 || !strings.Contains(r.out, "the files of provider aws were removed since") {
		t.Errorf("a rollback without files: exit status %d, want 5 and the reason\n%s", r.code, r.out)
	}
	t.Logf("%s", l.must(t, "cp1", back+" --cloud-config "+cloudConf+" --credential credentials=/tmp/credentials"))
	known()
	l.expectNotRestarted(t, restarts)
}
