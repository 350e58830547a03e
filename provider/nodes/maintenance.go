package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// maintenanceOf returns the condition MaintenanceInProgress that a Node is to get from the inventory, or nil where it has
// it already, or another administrator's, which stays. Kubernetes 1.37 has defined the type (KEP-5683): the administrator
// sets and clears it, and no component of Kubernetes reads it. An API server of any version takes it.
func maintenanceOf(node *corev1.Node, m *config.Machine) *corev1.NodeCondition {
	has := corev1.NodeCondition{Status: corev1.ConditionFalse}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeMaintenanceInProgress {
			has = c
		}
	}
	want := corev1.NodeCondition{
		Type: corev1.NodeMaintenanceInProgress, Status: corev1.ConditionFalse, Reason: v1alpha1.MaintenanceReason,
		Message: "the inventory lists the machine as " + string(config.MachineActive),
	}
	if m.State == config.MachineMaintenance {
		want.Status = corev1.ConditionTrue
		want.Message = "the inventory lists the machine as " + string(config.MachineMaintenance)
	}
	if has.Status == want.Status || has.Status == corev1.ConditionTrue && has.Reason != v1alpha1.MaintenanceReason {
		return nil
	}
	return &want
}

// setMaintenance writes the condition. It fails on the next Node of this name.
func (f *follower) setMaintenance(ctx context.Context, node *corev1.Node, m *config.Machine) error {
	condition := maintenanceOf(node, m)
	if condition == nil {
		return nil
	}
	condition.LastTransitionTime = metav1.Now()
	condition.LastHeartbeatTime = condition.LastTransitionTime
	var patch struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Status struct {
			Conditions []corev1.NodeCondition `json:"conditions"` // the others stay: they are merged by their type
		} `json:"status"`
	}
	patch.Metadata.UID = node.UID
	patch.Status.Conditions = append(patch.Status.Conditions, *condition)
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = f.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{FieldManager: inventory.Scheme}, "status")
	if err != nil {
		return fmt.Errorf("set condition %s of Node/%s: %w", condition.Type, node.Name, err)
	}
	return nil
}

// maintenanceChange is what a plan shows of it.
func maintenanceChange(node *corev1.Node, m *config.Machine) []Change {
	condition := maintenanceOf(node, m)
	if condition == nil {
		return nil
	}
	change := Change{Field: "condition " + string(condition.Type), New: string(condition.Status)}
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == condition.Type })
	if at >= 0 {
		change.Old = string(node.Status.Conditions[at].Status)
	}
	return []Change{change}
}
