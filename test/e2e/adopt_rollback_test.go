package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestAdopt_Rollback kills adopt and leave behind each of their steps, as soon as the next one has said something, and
// leads back from there: to a cluster as kubeadm has made it, and to one in external cloud mode.
func TestAdopt_Rollback(t *testing.T) {
	l := up(t, "adoptback", 1, 1, "--image", adoptImage)
	nodes := l.plainControlPlanes(t, nil, []string{"w1"})
	before := l.seen(t, nodes)
	const back = "ccmadm rollback --via pods --yes"
	for _, at := range []string{
		"begin", "cloud-config", "rbac", "addon", "rollout", "nodes] w1", "nodes] cp1", "kubeadm-config", "lifecycle", "record",
		"machine",
	} {
		l.killAt(t, adoptByPods, at)
		said := l.must(t, "cp1", back)
		l.expectAsBefore(t, before, l.seen(t, nodes))
		if out := l.kubectl(t, "-n kube-system get configmap,role,daemonset -l app.kubernetes.io/managed-by=ccmadm -o name"); strings.Trim(out,
			"\n") != "configmap/ccmadm-journal" {
			t.Errorf("behind a rollback from %s: %s", at, out)
		}
		if t.Failed() {
			t.Fatalf("the rollback said\n%s", said)
		}
	}
	l.must(t, "cp1", adoptByPods)
	for _, at := range []string{"rbac", "addon", "rollout", "nodes] w1", "nodes] cp1", "machine", "objects"} {
		l.killAt(t, leaveByPods, at)
		said := l.must(t, "cp1", back)
		l.expectInitialized(t, nodes...)
		l.expectExternal(t, nodes...)
		if r := l.sh(t, "cp1", "ccmadm diff"); r.code != 0 {
			t.Errorf("behind a rollback from %s, diff: exit status %d\n%s", at, r.code, r.out)
		}
		if t.Failed() {
			t.Fatalf("the rollback from %s said\n%s", at, said)
		}
	}
	l.must(t, "cp1", leaveByPods)
	l.must(t, "cp1", back)
	l.expectInitialized(t, nodes...)
}

// killAt ends a command with SIGKILL once it has said the first thing of a step.
func (l *lab) killAt(t *testing.T, command, at string) {
	t.Helper()
	r := l.sh(t, "cp1", fmt.Sprintf(`rm -f /tmp/out; setsid %s > /tmp/out 2>&1 & pid=$!
until grep -qsF '[%s' /tmp/out || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -9 -- $pid 2>/dev/null; { wait $pid; } 2>/dev/null; code=$?; tail -n 2 /tmp/out; exit $code`, command, at))
	if r.code != 137 {
		t.Fatalf("%s was to be killed at %s: exit status %d\n%s", command, at, r.code, l.must(t, "cp1", "cat /tmp/out"))
	}
	t.Logf("%s killed at: %s", strings.Fields(command)[1], strings.TrimSpace(r.out))
}
