package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestUpgrade_ControlPlanes: three control planes whose manager the cluster schedules, and which asks any of them. It is of
// the former release until the last one is upgraded, and somebody leads all the time.
func TestUpgrade_ControlPlanes(t *testing.T) {
	t.Parallel()
	l := up(t, "upgrade3", 3, 0, "--kubernetes", "1.35")
	next := l.managers(t)
	for _, cp := range l.nodes {
		l.must(t, cp, withAudit)
	}
	l.must(t, "cp1", strings.Replace(sharedEndpoint, kubeadmYAML, "/etc/lab/audited.yaml", 1))
	out := l.must(t, "cp1", strings.Replace(ccmadmInit, kubeadmYAML, "/tmp/three.yaml", 1)+
		" --upload-certs --profile /root/profile.yaml --mode DaemonSet")
	join := l.joinCommand(t) + " --control-plane --certificate-key " + certificateKey(out)
	for _, cp := range l.nodes[1:] {
		l.must(t, cp, join)
	}
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 cp2 cp3")
	l.bring(t, "1.36")
	l.load(t, next)
	for _, node := range l.nodes {
		l.must(t, node, "mv /usr/bin/kubeadm.new /usr/bin/kubeadm; cat > /root/upgrade.yaml <<'END'\n"+upgradeConfiguration+"END")
	}
	const flags = " --config /root/upgrade.yaml"
	start := time.Now()
	for i, node := range l.nodes {
		command, want := "ccmadm upgrade node"+flags, "lab.local/ccm:v1.35.0"
		if i == 0 {
			command = upgradeTo + flags
		}
		if i == len(l.nodes)-1 {
			want = "lab.local/ccm:v1.36.0"
		}
		done := make(chan result, 1)
		go func() { done <- l.sh(t, node, command) }()
		if i == 1 {
			l.expectOneAtATime(t, "cp3", "ccmadm upgrade node"+flags)
		}
		r := <-done
		t.Logf("%s: exit status %d\n%s", node, r.code, r.out)
		if r.code != 0 {
			l.upgradeDespiteProxy(t, node, command)
		}
		const image = "-n kube-system get daemonset onprem-cloud-controller-manager " +
			"-o jsonpath='{.spec.template.spec.containers[0].image}'"
		if got := l.kubectl(t, image); got != want {
			t.Errorf("once %s is upgraded the manager is %s, want %s", node, got, want)
		}
	}
	l.expectLedThroughout(t, start, leaseLimit, l.nodes...)
	l.must(t, "cp3", "ccmadm diff") // the others have the record of their own turn, and diff says so
	l.expectInitialized(t, l.nodes...)
}

// expectOneAtATime asks for another upgrade while one is in the journal that has no end.
func (l *lab) expectOneAtATime(t *testing.T, node, command string) {
	t.Helper()
	eventually(t, time.Minute, "the other one is in the journal", func() bool {
		return strings.Contains(l.sh(t, node, "ccmadm journal | grep Begun").out, "upgrade node")
	})
	if r := l.sh(t, node, command); r.code != 5 || !strings.Contains(r.out, "another run is under way") {
		t.Errorf("exit status %d, want 5\n%s", r.code, r.out)
	}
}
