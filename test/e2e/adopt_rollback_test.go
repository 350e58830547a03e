package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/phases/journal"
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
		for _, node := range nodes {
			if flags := l.must(t, node, kubeletFlags); !strings.Contains(flags, "--cloud-provider=external") {
				t.Errorf("behind a rollback from %s: %s: the kubelet runs with %s", at, node, flags)
			}
		}
		if r := l.sh(t, "cp1", "ccmadm diff"); r.code != 0 {
			t.Errorf("behind a rollback from %s, diff: exit status %d\n%s", at, r.code, r.out)
		}
		if t.Failed() {
			t.Fatalf("the rollback said\n%s", said)
		}
	}
	l.must(t, "cp1", leaveByPods)
	l.must(t, "cp1", back)
	l.expectInitialized(t, nodes...)
	l.toBeforeCP1(t)
}

// toBeforeCP1 leads back, from an adopted cluster, to before the run came to cp1; then from half a leave the nodes that
// it has come to.
func (l *lab) toBeforeCP1(t *testing.T) {
	t.Helper()
	external := func(when string, want map[string]bool) {
		t.Helper()
		for node, is := range want {
			if flags := l.must(t, node, kubeletFlags); strings.Contains(flags, "--cloud-provider=external") != is {
				t.Errorf("%s: %s: the kubelet runs with %s", when, node, flags)
			}
		}
	}
	t.Logf("%s", l.must(t, "cp1", l.stepBack(t, "cp1")))
	external("behind a rollback to before cp1", map[string]bool{"w1": true, "cp1": false})
	l.kubectl(t, "-n kube-system rollout status daemonset/onprem-cloud-controller-manager --timeout=60s")
	const manager = "system:serviceaccount:kube-system:onprem-cloud-controller-manager"
	if may := l.kubectl(t, "auth can-i delete nodes --as "+manager+" || true"); strings.TrimSpace(may) != "no" {
		t.Errorf("may the manager delete Nodes: %s", may)
	}
	l.must(t, "cp1", adoptByPods)
	l.expectInitialized(t, "w1", "cp1")
	l.killAt(t, leaveByPods, "nodes] cp1")
	t.Logf("%s", l.must(t, "cp1", l.stepBack(t, "w1")))
	external("behind a rollback of leave to before w1", map[string]bool{"w1": true})
	l.must(t, "cp1", leaveByPods)
	external("behind leave", map[string]bool{"w1": false, "cp1": false})
}

// stepBack is the command that leads back to before the kubelet of a node, in the newest run of the journal.
func (l *lab) stepBack(t *testing.T, node string) string {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(l.must(t, "cp1", "ccmadm journal -o json")), "\n")
	var run journal.Run
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &run); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(run.Steps, func(s journal.Step) bool { return s.Name == "kubelet" && s.Node == node })
	if i < 0 {
		t.Fatalf("the newest run has no step of the kubelet of %s: %s", node, lines[len(lines)-1])
	}
	return fmt.Sprintf("ccmadm rollback %d.%d --via pods --yes", run.ID, i+1)
}

// killAt ends a command with SIGKILL once it has said the first thing of a step.
func (l *lab) killAt(t *testing.T, command, at string) {
	t.Helper()
	r := l.sh(t, "cp1", fmt.Sprintf(`setsid %s > /tmp/out 2>&1 & pid=$!
until grep -qF '[%s' /tmp/out || ! kill -0 $pid 2>/dev/null; do sleep 0.02; done
kill -9 -- $pid 2>/dev/null; { wait $pid; } 2>/dev/null; code=$?; tail -n 2 /tmp/out; exit $code`, command, at))
	if r.code != 137 {
		t.Fatalf("%s was to be killed at %s: exit status %d\n%s", command, at, r.code, l.must(t, "cp1", "cat /tmp/out"))
	}
	t.Logf("%s killed at: %s", strings.Fields(command)[1], strings.TrimSpace(r.out))
}
