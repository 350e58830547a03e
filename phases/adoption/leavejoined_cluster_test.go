package adoption

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Machines that join while the others leave are not left behind with a taint that nobody takes away.
func TestCluster_Leave_SomebodyJoins(t *testing.T) {
	m, client := bySample(t)
	phasestest.AddNode(t, client, "w8", "198.18.0.108", nil)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true, Remote: fleet.Remote{Skip: []string{"w8"}}})
	runAll(t.Context(), t, r, out, []workflow.Phase{leavePreflight()})
	knowAll(t, client, nil) // as they are when the phase "nodes" has come to its end
	phasestest.AddNode(t, client, "w9", "198.18.0.109", nil)
	for _, name := range []string{"w8", "w9"} {
		if err := kubelet.Taint(t.Context(), client, name, true); err != nil {
			t.Fatal(err)
		}
	}
	err := removeObjects().Do(t.Context(), r)
	phasestest.WantError(t, workflow.AsError(err), "or have the uninitialized taint: Node/w9", finding.ExitError)
	if _, err := workflow.ReadRecord(t.Context(), client); err != nil {
		t.Errorf("the record: %v", err)
	}
	if err := kubelet.Taint(t.Context(), client, "w9", false); err != nil {
		t.Fatal(err)
	}
	err = removeObjects().Do(t.Context(), r) // its kubelet repeats no address, and tells no flags
	phasestest.WantError(t, workflow.AsError(err), "as far as is known, or have the uninitialized taint: Node/w9", finding.ExitError)
	if err := client.CoreV1().Nodes().Delete(t.Context(), "w9", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	runAll(t.Context(), t, r, out, []workflow.Phase{removeObjects()})
	if _, err := workflow.ReadRecord(t.Context(), client); !apierrors.IsNotFound(err) {
		t.Errorf("the record: %v", err)
	}
}

// A taint of a Node whose kubelet has left is one that nobody takes away.
func TestCluster_Leave_TaintOfOneThatHasLeft(t *testing.T) {
	m, client := bySample(t)
	knowAll(t, client, nil)
	if err := kubelet.Taint(t.Context(), client, "w1", true); err != nil {
		t.Fatal(err)
	}
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Remote: fleet.Remote{Via: fleet.ViaHand}})
	leftInRunBefore(t, client, "w1")
	a, err := adoptionOf(r).newAdopter(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.leave(t.Context(), &fleet.Node{Name: "w1", IP: "198.18.0.101"}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	if err != nil || nodes.IsTainted(node) {
		t.Errorf("it is tainted: %v, %v", nodes.IsTainted(node), err)
	}
}

// leftInRunBefore leaves the journal as a run of leave does that has failed after it has taken a machine out.
func leftInRunBefore(t *testing.T, client kubernetes.Interface, node string) {
	t.Helper()
	j, err := journal.Open(t.Context(), client, journal.Run{Command: "leave", Machine: "cp9", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	done := func(context.Context) error { return nil }
	if err := j.Do(t.Context(), journal.Step{Name: kubeletStep, Node: node, Before: flagExternal, After: noFlags}, done); err != nil {
		t.Fatal(err)
	}
	if err := j.End(t.Context(), errors.New("cut short")); err != nil {
		t.Fatal(err)
	}
}

// By hand, only a run of leave that has not come to its end, with no other run after it, tells that a machine has left.
func TestLeftBefore(t *testing.T) {
	const done, failed = journal.Done, journal.Failed
	began := metav1.Now()
	leave := func(state, of journal.State) journal.Run {
		return journal.Run{Command: "leave", State: state, Steps: []journal.Step{{Name: kubeletStep, Node: "w1", State: of, Began: began}}}
	}
	for name, tt := range map[string]struct {
		runs []journal.Run
		want bool
		made time.Duration // after the step began
	}{
		"a run that was cut short":   {[]journal.Run{leave(failed, done)}, true, 0},
		"another Node of the name":   {[]journal.Run{leave(failed, done)}, false, time.Minute},
		"two of them":                {[]journal.Run{leave(failed, done), {Command: "leave", State: journal.Begun}}, true, -time.Hour},
		"the rollback of adopt":      {[]journal.Run{{Command: "leave (rollback 3)", State: failed, Steps: leave("", done).Steps}}, true, 0},
		"a step that has failed":     {[]journal.Run{leave(failed, failed)}, false, 0},
		"a run that came to its end": {[]journal.Run{leave(done, done)}, false, 0},
		"adopt after it":             {[]journal.Run{leave(failed, done), {Command: "adopt", State: failed}}, false, 0},
		"nothing":                    {},
		"a run of adopt":             {[]journal.Run{{Command: "adopt", State: failed, Steps: leave("", done).Steps}}, false, 0},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", CreationTimestamp: metav1.NewTime(began.Add(tt.made))}}
		if got := leftBefore(tt.runs, node); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
