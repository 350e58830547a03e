package e2e

import (
	"strings"
	"testing"
	"time"
)

// cloudDocument begins a file for `ccmadm apply`.
const cloudDocument = `printf 'apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n%b\n' `

// expectApplied applies a file, an empty one being none, and expects the second run and diff to find nothing.
func (l *lab) expectApplied(t *testing.T, node, file string) string {
	t.Helper()
	with := ""
	if file != "" {
		l.must(t, node, cloudDocument+"'"+file+"' > /root/cloud.yaml")
		with = " -f /root/cloud.yaml"
	}
	out := l.must(t, node, "ccmadm apply"+with)
	if r := l.sh(t, node, "ccmadm diff"+with); r.code != 0 {
		t.Errorf("%s: after apply, diff: exit status %d\n%s", node, r.code, r.out)
	}
	return out
}

// expectDrift expects exit status 6, and words.
func (l *lab) expectDrift(t *testing.T, node, command, words string) {
	t.Helper()
	if r := l.sh(t, node, command); r.code != 6 || !strings.Contains(r.out, words) {
		t.Errorf("%s: %s: exit status %d, want 6 and %q\n%s", node, command, r.code, words, r.out)
	}
}

// expectApplyOfAWorkload is about a cloud-controller-manager that the cluster schedules: what drifts is found and
// repaired, and a DaemonSet becomes a Deployment and a DaemonSet again.
func (l *lab) expectApplyOfAWorkload(t *testing.T) {
	t.Run("what has drifted is repaired", func(t *testing.T) {
		l.kubectl(t, "-n kube-system delete daemonset onprem-cloud-controller-manager")
		l.expectDrift(t, "cp1", "ccmadm diff", "would create DaemonSet/kube-system/onprem-cloud-controller-manager")
		t.Logf("%s", l.must(t, "cp1", "ccmadm apply"))
		l.kubectl(t, `patch clusterrole ccmadm:onprem --type json -p '[{"op":"remove","path":"/rules/0"}]'`)
		for _, command := range []string{"diff", "apply"} { // kubectl has made the rules its own
			if r := l.sh(t, "cp1", "ccmadm "+command); r.code != 5 || !strings.Contains(r.out, "ClusterRole/ccmadm:onprem") {
				t.Errorf("%s of what somebody else has set: exit status %d, want 5\n%s", command, r.code, r.out)
			}
		}
		l.expectDrift(t, "cp1", "ccmadm diff --force", "ClusterRole/ccmadm:onprem")
		t.Logf("%s", l.must(t, "cp1", "ccmadm apply --force"))
		l.expectApplied(t, "cp1", "")
	})
	for _, mode := range []string{"Deployment", "DaemonSet"} {
		t.Run("mode "+mode, func(t *testing.T) {
			before, start := l.leaseHolder(t), time.Now()
			out := l.expectApplied(t, "cp1", "mode: "+mode+"\\ncontrollerManager: {extraArgs: [--v=3]}")
			t.Logf("%.0f s, leader %s, before %s\n%s", time.Since(start).Seconds(), l.leaseHolder(t), before, out)
			if kinds := l.kubectl(t, "-n kube-system get daemonset,deployment -o name"); !strings.Contains(kinds,
				strings.ToLower(mode)+".apps/onprem-cloud-controller-manager") || strings.Count(kinds, "/onprem-cloud-controller-manager") != 1 {
				t.Errorf("workloads:\n%s", kinds)
			}
		})
	}
}

// expectApplyOfStaticPods brings an argument to control planes one after the other: each run names those that lack it.
func (l *lab) expectApplyOfStaticPods(t *testing.T, nodes ...string) {
	t.Run("an argument comes to every static pod", func(t *testing.T) {
		for i, node := range nodes {
			out := ""
			if i == 0 {
				out = l.expectApplied(t, node, "controllerManager: {extraArgs: [--v=3]}")
			} else {
				l.expectDrift(t, node, "ccmadm diff", "--v=3")
				out = l.expectApplied(t, node, "")
			}
			if named := strings.Contains(out, "not yet on"); named != (i < len(nodes)-1) {
				t.Errorf("%s: others are named: %v\n%s", node, named, out)
			}
		}
		if pods := l.kubectl(t, "-n kube-system get pods -l component=cloud-controller-manager -o yaml"); strings.Count(pods, "- --v=3") != len(nodes) {
			t.Errorf("not every static pod has the argument:\n%s", pods)
		}
	})
}
