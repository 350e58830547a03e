package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/doctor/lbtest"
)

// suitePool gives addresses back soon: the suite waits for two of them.
const suitePool = `apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: lan}
spec: {ranges: ["%s-%s"], level: L2, reuseAfter: 10s}
`

// TestLoadBalancerSuite runs `ccmadm lb test` from a machine that is no Node, and requires that every check passes that the cluster can
// have; then again while the owner of the address moves. Nothing is left of either.
func TestLoadBalancerSuite(t *testing.T) {
	t.Parallel()
	l := up(t, "lbsuite", 1, 3, "--image", agentImage, "--image", adoptImage)
	l.must(t, "cp1", ccmadmInit+" --node-agent")
	join := l.joinCommand(t)
	for _, node := range []string{"w1", "w2"} {
		l.must(t, node, join)
		// A Node that redirects clients of its own subnet does not refuse them: the kernel has one limit for both.
		l.must(t, node, "sysctl -qw net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0")
	}
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	l.kubectl(t, "-n kube-system rollout status daemonset/ccmadm-node-agent --timeout=240s")
	l.apply(t, fmt.Sprintf(suitePool, l.inSubnet(t, 200), l.inSubnet(t, 219)))
	t.Cleanup(func() {
		if t.Failed() {
			l.explainBalancers(t)
		}
	})
	kubeconfig := l.must(t, "cp1", "cat /etc/kubernetes/admin.conf")
	l.must(t, clientMachine, "install -m 600 /dev/null /root/suite.conf && cat > /root/suite.conf <<'END'\n"+kubeconfig+"END\n")

	// The cluster has one family, and the agent is restarted by the run below. A command on a machine has six minutes.
	names := slices.DeleteFunc(lbtest.Names(), func(name string) bool { return name == "dual-stack" || name == "owner-moves" })
	half := len(names) / 2
	for _, some := range [][]string{names[:half], names[half:]} {
		report := l.suite(t, "--run "+strings.Join(some, ","))
		if report.Implementation != "ccmadm" || len(report.Nodes) != 3 || report.Machine != "" {
			t.Errorf("the suite saw %q on Nodes %v, and itself as Node %q", report.Implementation, report.Nodes, report.Machine)
		}
	}
	moved := l.suite(t, "--run owner-moves --disrupt")
	t.Logf("the owner moves: %d requests were lost; %s", moved.Checks[0].Lost, strings.Join(moved.Checks[0].Notes, "; "))
	if r := l.sh(t, "cp1", admin+"get namespace ccmadm-lb-test"); r.code == 0 {
		t.Errorf("the suite has left its namespace:\n%s", r.out)
	}
}

// suite runs it on the client's machine, and requires that all checks passed.
func (l *lab) suite(t *testing.T, flags string) *lbtest.Report {
	t.Helper()
	r := l.sh(t, clientMachine, "ccmadm lb test --kubeconfig /root/suite.conf --wait 90s --timeout 5m30s -o json "+flags+
		" 2>/root/suite.log; status=$?; [ $status = 0 ] || cat /root/suite.log >&2; exit $status")
	if r.code != 0 {
		t.Fatalf("ccmadm lb test %s: exit status %d\n%s", flags, r.code, r.out)
	}
	var report lbtest.Report
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("read the report: %v\n%s", err, r.out)
	}
	for _, c := range report.Checks {
		t.Logf("%s: %s, %.1f s, %d requests lost", c.Name, c.Result, c.Seconds, c.Lost)
		if c.Result != lbtest.Pass {
			t.Errorf("%s: %s: %s", c.Name, c.Result, c.Reason)
		}
	}
	if len(report.Checks) == 0 {
		t.Fatalf("no check ran:\n%s", r.out)
	}
	return &report
}
