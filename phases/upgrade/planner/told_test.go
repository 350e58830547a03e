package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What kubelets say of themselves.
func TestNew_Told(t *testing.T) {
	use := func(u Use) func(*Facts) { return func(f *Facts) { f.Uses = append(f.Uses, u) } }
	for _, tt := range []row{
		{
			name: "a gate that kubelets have by kubeadm's configuration, which is cleaned",
			do: func(f *Facts) {
				gate := Use{Component: Kubelet, Name: GatePrefix + "MemoryManager"}
				cleaned, cp1, w1 := gate, gate, gate
				cleaned.Where, cleaned.Cleaned = "ConfigMap/kube-system/kubelet-config", true
				cp1.Where, cp1.Node, cp1.Told = "the kubelet's configuration", "cp1", true
				w1.Where, w1.Node, w1.Told = "the kubelet's configuration", "w1", true
				f.Uses = []Use{cleaned, cp1, w1}
			},
			want: []string{
				"warning U5 ConfigMap/kube-system/kubelet-config", "warning U5 cp1:the kubelet's configuration",
				"warning U5 w1:the kubelet's configuration",
			},
		},
		{
			name: "a gate that a kubelet has by an argument, which kubeadm does not take away",
			do: func(f *Facts) {
				gate := Use{Component: Kubelet, Name: GatePrefix + "MemoryManager"}
				cleaned, cp1 := gate, gate
				cleaned.Where, cleaned.Cleaned = "ConfigMap/kube-system/kubelet-config", true
				cp1.Where, cp1.Node, cp1.Told = "the kubelet's arguments", "cp1", true
				f.Uses = []Use{cleaned, cp1}
			},
			want: []string{"error U5 cp1:the kubelet's arguments", "warning U5 ConfigMap/kube-system/kubelet-config"},
		},
		{
			name: "what a control plane's kubelet says of itself",
			do: use(Use{
				Component: Kubelet, Name: GatePrefix + "MemoryManager", Node: "cp1", Told: true,
				Where: "the kubelet's configuration",
			}),
			want: []string{"error U5 cp1:the kubelet's configuration"},
		},
		{
			name: "what a worker's kubelet says of itself is no reason for others to wait",
			do: use(Use{
				Component: Kubelet, Name: GatePrefix + "MemoryManager", Node: "w1", Told: true,
				Where: "the kubelet's configuration",
			}),
			want: []string{"warning U5 w1:the kubelet's configuration"}, says: "before that kubelet is upgraded",
		},
		{
			name: "a worker's kubelet that says to be of a version that does not exist",
			do:   func(f *Facts) { f.Nodes[2].Kubelet = "v1.99.0" },
			want: []string{"warning U10 Node/w1"}, says: "ccmadm upgrade apply v1.36.3",
		},
		{
			name: "the same of a control plane",
			do:   func(f *Facts) { f.Nodes[0].Kubelet = "v1.99.0" },
			want: []string{"error U10 Node/cp1"},
		},
		{
			name: "a worker's kubelet that is too old: kubeadm refuses it",
			do:   func(f *Facts) { f.Nodes[2].Kubelet = "v1.32.0" },
			want: []string{"warning U10 Node/w1"},
		},
	} {
		tt.run(t)
	}
}

// What kubeadm has begun and not finished is left, however it looks from outside.
func TestNew_CutShort(t *testing.T) {
	p := planned(t, func(f *Facts) {
		allAt(f, "v1.36.3", "v1.36.1")
		f.CutShort = "ccmadm upgrade apply v1.36.3"
	})
	if diff := cmp.Diff([]string{"cp2: ccmadm upgrade apply v1.36.3", ": ccmadm status"}, steps(p)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}
