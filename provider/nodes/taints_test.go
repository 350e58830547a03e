package nodes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestTaintsOf(t *testing.T) {
	gpu := corev1.Taint{Key: "example.com/gpu", Effect: corev1.TaintEffectNoSchedule}
	gpuValue := corev1.Taint{Key: "example.com/gpu", Value: "a100", Effect: corev1.TaintEffectNoSchedule}
	evict := corev1.Taint{Key: "example.com/gpu", Effect: corev1.TaintEffectNoExecute}
	theirs := corev1.Taint{Key: "example.com/theirs", Effect: corev1.TaintEffectNoSchedule}
	maintenance := corev1.Taint{Key: v1alpha1.MaintenanceTaint, Effect: corev1.TaintEffectNoSchedule}
	waits := corev1.Taint{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}
	for _, tt := range []struct {
		name     string
		machine  config.Machine
		node     []corev1.Taint
		dropped  []corev1.Taint
		want     []corev1.Taint
		withheld []corev1.Taint
	}{
		{
			name:    "a new taint, on a Node that runs",
			machine: config.Machine{Taints: []corev1.Taint{gpu}},
			node:    []corev1.Taint{theirs},
			want:    []corev1.Taint{theirs, gpu},
		},
		{
			name:    "a new value",
			machine: config.Machine{Taints: []corev1.Taint{gpuValue}},
			node:    []corev1.Taint{gpu, theirs},
			want:    []corev1.Taint{gpuValue, theirs},
		},
		{
			name:    "no longer listed",
			node:    []corev1.Taint{gpu, theirs},
			dropped: []corev1.Taint{gpu},
			want:    []corev1.Taint{theirs},
		},
		{
			name: "somebody else's",
			node: []corev1.Taint{gpu, theirs},
			want: []corev1.Taint{gpu, theirs},
		},
		{
			name:     "one that evicts, on a Node that runs",
			machine:  config.Machine{Taints: []corev1.Taint{evict}},
			node:     []corev1.Taint{gpu},
			want:     []corev1.Taint{gpu},
			withheld: []corev1.Taint{evict},
		},
		{
			name:    "one that evicts, on a new Node",
			machine: config.Machine{Taints: []corev1.Taint{evict}},
			node:    []corev1.Taint{waits},
			want:    []corev1.Taint{waits, evict},
		},
		{
			name:    "a machine in maintenance",
			machine: config.Machine{State: config.MachineMaintenance},
			want:    []corev1.Taint{maintenance},
		},
		{
			name:    "after maintenance, though this process has not seen it",
			machine: config.Machine{State: config.MachineActive},
			node:    []corev1.Taint{maintenance, theirs},
			want:    []corev1.Taint{theirs},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &corev1.Node{Spec: corev1.NodeSpec{Taints: tt.node}}
			want, withheld := taintsOf(node, &tt.machine, tt.dropped)
			if diff := cmp.Diff(tt.want, want); diff != "" {
				t.Errorf("taints, -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tt.withheld, withheld); diff != "" {
				t.Errorf("withheld, -want +got:\n%s", diff)
			}
			node.Spec.Taints = want
			if again, _ := taintsOf(node, &tt.machine, tt.dropped); !sameTaints(want, again) {
				t.Errorf("twice is not once: %v", again)
			}
		})
	}
}
