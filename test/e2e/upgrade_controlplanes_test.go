package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const schedulesManager = "-n kube-system get daemonset onprem-cloud-controller-manager " +
	"-o jsonpath='{.spec.template.spec.containers[0].image}'"

// TestUpgrade_ControlPlanes: three control planes whose manager the cluster schedules, and which asks any of them. It is
// of the former release until the last one is upgraded, and somebody leads all the time. The third one, and a worker
// that its owner has cordoned, are upgraded from the first, by a run that is killed on the way.
func TestUpgrade_ControlPlanes(t *testing.T) {
	t.Parallel()
	l := upOld(t, "upgrade3", 3, 1)
	next := l.managers(t)
	l.beforeUpgrade(t, " --mode DaemonSet")
	l.load(t, next, adoptImage)
	const flags = " --config /root/upgrade.yaml"
	first := l.step.apply() + flags
	l.onEach(t, l.controlPlanes(), "cp /usr/bin/kubeadm /root/kubeadm.old; cp /usr/bin/kubeadm.new /usr/bin/kubeadm")
	start := time.Now()
	l.expectFormerManager(t, "cp1", first, l.sh(t, "cp1", first))
	done := make(chan result, 1)
	go func() { done <- l.sh(t, "cp2", "ccmadm upgrade node"+flags) }()
	l.expectOneAtATime(t, "cp3", "ccmadm upgrade node"+flags)
	l.expectFormerManager(t, "cp2", "ccmadm upgrade node"+flags, <-done)
	fromHere := first + " --via pods"
	l.must(t, "cp3", "mv /root/kubeadm.old /usr/bin/kubeadm")
	l.expectLacking(t, fromHere)
	for _, node := range []string{"cp3", "w1"} {
		l.must(t, node, "mv /usr/bin/kubeadm.new /usr/bin/kubeadm")
	}
	l.kubectl(t, "cordon w1")
	l.killedAtOther(t, fromHere)
	out := l.upgradeDespiteProxy(t, "cp1", fromHere)
	t.Logf("%s", out)
	expectSaid(t, out, "[others] cp3: done in ", "[others] w1: [kubeadm] running kubeadm upgrade node",
		"[others] w1: done in ", "kubectl uncordon w1 # unless it is to stay cordoned")
	if got := l.kubectl(t, "get node w1 -o jsonpath='{.spec.unschedulable}'"); got != "true" {
		t.Errorf("w1 was cordoned, and is not any more: %q", got)
	}
	if got := l.kubectl(t, schedulesManager); got != "lab.local/ccm:"+l.step.next() {
		t.Errorf("once all are upgraded the manager is %s", got)
	}
	l.expectLedThroughout(t, start, leaseLimit, l.controlPlanes()...)
	l.expectDrivenMachines(t, fromHere)
	l.expectInitialized(t, l.nodes...)
}

// expectFormerManager: a control plane was upgraded there, and the manager stays as it is.
func (l *lab) expectFormerManager(t *testing.T, node, command string, r result) {
	t.Helper()
	t.Logf("%s: exit status %d\n%s", node, r.code, r.out)
	if r.code != 0 {
		l.upgradeDespiteProxy(t, node, command)
	}
	if got := l.kubectl(t, schedulesManager); got != "lab.local/ccm:"+l.step.former() {
		t.Errorf("once %s is upgraded the manager is %s", node, got)
	}
}

// expectLacking: machines without the kubeadm of the version are named, with the command, and nothing begins.
func (l *lab) expectLacking(t *testing.T, fromHere string) {
	t.Helper()
	lacks := "its kubeadm is v" + l.step.from + "."
	for _, command := range []string{l.step.plan() + " --via pods", fromHere} {
		r := l.sh(t, "cp1", command)
		for _, want := range []string{"Node/cp3: " + lacks, "Node/w1: " + lacks, "kubeadm"} {
			if r.code != 3 || !strings.Contains(r.out, want) {
				t.Errorf("%s: exit status %d, want 3 and %q\n%s", command, r.code, want, r.out)
			}
		}
	}
	const image = "grep image: /etc/kubernetes/manifests/kube-apiserver.yaml"
	if got := l.must(t, "cp3", image); !strings.Contains(got, ":v"+l.step.from+".") {
		t.Errorf("cp3 was upgraded: %s", got)
	}
}

// killedAtOther kills the driver while kubeadm is at work on cp3. That goes on: as long as it does, the same command
// begins nothing.
func (l *lab) killedAtOther(t *testing.T, fromHere string) {
	t.Helper()
	const atWork = "[others] cp3: [kubeadm] running kubeadm upgrade node --config=/etc/ccmadm/upgrade.yaml"
	r := l.sh(t, "cp1", fmt.Sprintf(`setsid %s > /root/out 2>&1 & pid=$!
for n in {1..3000}; do grep -qF '%s' /root/out && break; kill -0 $pid 2>/dev/null || break; sleep 0.1; done
kill -9 -- -$pid; { wait $pid; } 2>/dev/null; code=$?; cat /root/out; exit $code`, fromHere, atWork))
	if r.code != 137 || !strings.Contains(r.out, atWork) {
		t.Fatalf("exit status %d, want 137, killed behind %q\n%s", r.code, atWork, r.out)
	}
	r = l.sh(t, "cp1", fromHere)
	if r.code != 3 || !strings.Contains(r.out, "is still running on Node/cp3, of a run that is under way") {
		t.Errorf("exit status %d, want 3\n%s", r.code, r.out)
	}
	const pod = "$(" + admin + "-n kube-system get pods -o name | grep /ccmadm-upgrade-)"
	var ended string
	eventually(t, 5*time.Minute, "what was at work on cp3 has ended", func() bool {
		ended = l.sh(t, "cp1", admin+"-n kube-system get "+pod+" -o jsonpath='{.status.phase}'").out
		return ended == "Succeeded" || ended == "Failed"
	})
	if ended == "Failed" { // kube-proxy may have lost its rules, which the same command finds, too
		t.Logf("what was at work on cp3 has failed:\n%s", l.sh(t, "cp1", admin+"-n kube-system logs --tail 15 "+pod).out)
	}
	l.must(t, "cp3", "grep 'upgraded: "+l.step.version+"' /etc/ccmadm/machine.yaml")
}

// expectDrivenMachines looks at what was done on machines from another one, and at what the same command does then.
func (l *lab) expectDrivenMachines(t *testing.T, fromHere string) {
	t.Helper()
	l.must(t, "cp3", "ccmadm diff") // the others have the record of their own turn, and diff says so
	for _, node := range []string{"cp3", "w1"} {
		l.must(t, node, "grep 'upgraded: "+l.step.version+"' /etc/ccmadm/machine.yaml && ! ls /etc/ccmadm/upgrade.yaml")
	}
	const runs = "-n kube-system get configmap ccmadm-journal -o jsonpath='{.data}'"
	t.Logf("%s", l.must(t, "cp1", "ccmadm journal"))
	journal := l.kubectl(t, runs)
	if !strings.Contains(journal, "upgrade workers "+l.step.version) {
		t.Error("the worker is not in the journal")
	}
	if out := l.must(t, "cp1", fromHere); !strings.Contains(out, "w1: nothing is left to be done") ||
		l.kubectl(t, runs) != journal {
		t.Errorf("the second time:\n%s", out)
	}
	left := l.kubectl(t, "-n kube-system get pods -l app.kubernetes.io/managed-by=ccmadm -o name")
	if strings.Contains(left, "ccmadm-upgrade-") || strings.Contains(left, "ccmadm-show-") {
		t.Errorf("pods are left: %s", left)
	}
	const releases = "get nodes cp1 cp2 cp3 -o " +
		"jsonpath='{range .items[*]}{.metadata.annotations.ccmadm\\.dev/release} {end}'"
	noted := strings.Fields(l.kubectl(t, releases))
	if len(noted) != 3 || noted[0] != noted[1] || noted[1] != noted[2] {
		t.Errorf("control planes have noted the releases %q", noted)
	}
	l.kubectl(t, "annotate --overwrite node cp2 ccmadm.dev/release=v0.0.1")
	r := l.sh(t, "cp1", l.step.plan())
	if !strings.Contains(r.out, "v0.0.1 on cp2") {
		t.Errorf("another release is not named: exit status %d\n%s", r.code, r.out)
	}
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
