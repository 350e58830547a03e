package adoption

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/fleet"
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
