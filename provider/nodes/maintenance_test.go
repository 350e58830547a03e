package nodes

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestMaintenanceOf(t *testing.T) {
	condition := func(status corev1.ConditionStatus, reason string) []corev1.NodeCondition {
		return []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			{Type: corev1.NodeMaintenanceInProgress, Status: status, Reason: reason},
		}
	}
	ours, theirs := v1alpha1.MaintenanceReason, "Firmware"
	for _, tt := range []struct {
		name  string
		state config.MachineState
		node  []corev1.NodeCondition
		want  corev1.ConditionStatus
	}{
		{"active, and never was anything else", config.MachineActive, nil, ""},
		{"no state", "", nil, ""},
		{"maintenance begins", config.MachineMaintenance, nil, corev1.ConditionTrue},
		{"maintenance goes on", config.MachineMaintenance, condition(corev1.ConditionTrue, ours), ""},
		{"maintenance again", config.MachineMaintenance, condition(corev1.ConditionFalse, ours), corev1.ConditionTrue},
		{"maintenance, of which another says the same", config.MachineMaintenance, condition(corev1.ConditionTrue, theirs), ""},
		{"maintenance, of which another says no", config.MachineMaintenance, condition(corev1.ConditionFalse, theirs), corev1.ConditionTrue},
		{"maintenance ends", config.MachineActive, condition(corev1.ConditionTrue, ours), corev1.ConditionFalse},
		{"decommissioned", config.MachineDecommissioned, condition(corev1.ConditionTrue, ours), corev1.ConditionFalse},
		{"another's stays", config.MachineActive, condition(corev1.ConditionTrue, theirs), ""},
		{"over", config.MachineActive, condition(corev1.ConditionFalse, ours), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: tt.node}}
			got := maintenanceOf(node, &config.Machine{State: tt.state})
			if (got == nil) != (tt.want == "") || got != nil && (got.Status != tt.want || got.Reason != ours) {
				t.Fatalf("got %+v, want %q", got, tt.want)
			}
			if changes := maintenanceChange(node, &config.Machine{State: tt.state}); len(changes) > 0 != (got != nil) {
				t.Errorf("a plan shows %v", changes)
			}
		})
	}
}

// An API server takes the condition beside the kubelet's, whatever its gate NodeLifecycleConditions says, and a second run
// writes nothing.
func TestCluster_Maintenance(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(unlimited(plane.Config)).CoreV1().Nodes()
	f := &follower{client: kubernetes.NewForConfigOrDie(unlimited(plane.Config))}
	kubelets := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}
	node, err := client.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "maintained"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{kubelets}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Delete(context.WithoutCancel(t.Context()), node.Name, metav1.DeleteOptions{}) })
	for _, step := range []struct {
		state  config.MachineState
		leaves bool
	}{
		{config.MachineMaintenance, true}, {config.MachineActive, false},
	} {
		m := &config.Machine{ID: "m1", State: step.state}
		if err := f.setMaintenance(t.Context(), node, m); err != nil {
			t.Fatal(err)
		}
		if node, err = client.Get(t.Context(), "maintained", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if c := node.Status.Conditions; len(c) != 2 || v1alpha1.Leaving(node) != "" != step.leaves {
			t.Errorf("%s: the Node has %v, leaving: %q", step.state, c, v1alpha1.Leaving(node))
		}
		before := node.ResourceVersion
		if err := f.setMaintenance(t.Context(), node, m); err != nil {
			t.Fatal(err)
		}
		if node, err = client.Get(t.Context(), "maintained", metav1.GetOptions{}); err != nil || node.ResourceVersion != before {
			t.Errorf("%s: a second run has written: %v", step.state, err)
		}
	}
	other := node.DeepCopy()
	other.UID = "of-the-node-before"
	if err := f.setMaintenance(t.Context(), other, &config.Machine{State: config.MachineMaintenance}); err == nil {
		t.Error("the next Node of this name was written to")
	}
}
