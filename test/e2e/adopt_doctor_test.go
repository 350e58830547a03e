package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestAdopt_Doctor cuts commands of ccmadm's own at their steps, and does what the doctor says then, word for word: the
// cluster is where the command was to bring it, and the doctor reports no command any more.
func TestAdopt_Doctor(t *testing.T) {
	l := up(t, "adoptdoctor", 1, 1, "--image", adoptImage)
	nodes := l.plainControlPlanes(t, nil, []string{"w1"})
	before := l.seen(t, nodes)
	d := &library{lab: l}
	left := func() {
		t.Helper()
		l.expectAsBefore(t, before, l.seen(t, nodes))
		for _, c := range d.roots(t) {
			if c.Severity == "error" {
				t.Errorf("after leave the doctor reports %s: %s", c.ID, c.Message)
			}
		}
	}
	adopted := func() {
		t.Helper()
		l.expectInitialized(t, nodes...)
		l.expectExternal(t, nodes...)
	}
	leaves := []string{"rollout", "nodes] w1", "objects"}
	for i, at := range []string{"rbac", "addon", "nodes] w1", "nodes] cp1", "lifecycle", "record"} {
		l.killAt(t, adoptByPods, at)
		d.follow(t, "adopt at "+at, adoptByPods)
		adopted()
		if i < len(leaves) {
			l.killAt(t, leaveByPods, leaves[i])
			d.follow(t, "leave at "+leaves[i], leaveByPods)
		} else {
			l.must(t, "cp1", leaveByPods)
		}
		left()
		if t.Failed() {
			t.FailNow()
		}
	}
	l.must(t, "cp1", adoptByPods)
	l.writeFiles(t, map[string]string{
		"/root/mode.yaml": "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\nmode: Deployment\n",
	})
	for _, at := range []string{"addon", "rollout"} {
		l.killAt(t, "ccmadm apply -f /root/mode.yaml", at)
		d.follow(t, "change of mode at "+at, "ccmadm apply --filename=/root/mode.yaml")
		if got := l.kubectl(t, "-n kube-system get deployment -l app.kubernetes.io/managed-by=ccmadm -o name"); !strings.Contains(got, "deployment") {
			t.Errorf("behind the change of mode: %q", got)
		}
		l.killAt(t, "ccmadm rollback --yes", "addon] Deployment/") // its dry run, which shows the same phases, says "would" first
		d.follow(t, "rollback", "ccmadm rollback")
		if got := l.kubectl(t, "-n kube-system get daemonset -l app.kubernetes.io/managed-by=ccmadm -o name"); !strings.Contains(got, "daemonset") {
			t.Errorf("behind the rollback: %q", got)
		}
		adopted()
	}
}

// follow asks the doctor, which has to name the command that goes on, runs that word for word, and asks again.
func (l *library) follow(t *testing.T, state, command string) {
	t.Helper()
	var found *cause
	var all []string
	for _, c := range l.roots(t) {
		all = append(all, fmt.Sprintf("%s %s: %s", c.ID, c.Object, c.Message))
		if c.ID == "O3" {
			found = &c
		}
	}
	name := strings.Join(strings.Fields(command)[:2], " ")
	if found == nil || !strings.HasPrefix(found.Next, "on cp1: "+name) {
		t.Fatalf("%s: the doctor names no command that goes on: %s\n%+v", state, strings.Join(all, "\n"), found)
	}
	t.Logf("%s: %s\n  all: %s", state, found.Next, strings.Join(all, "\n  "))
	l.must(t, "cp1", strings.TrimPrefix(found.Next, "on cp1: "))
	for _, c := range l.roots(t) {
		if c.ID == "O3" {
			t.Errorf("%s: the doctor still reports %s", state, c.Message)
		}
	}
}
