package diagnosis

import (
	"testing"

	"github.com/ccmadm/ccmadm/templates"
)

// TestDiagnose_Leaders is about whose hostname is in the Lease while Nodes wait.
func TestDiagnose_Leaders(t *testing.T) {
	asks := logged("attempting to acquire leader lease kube-system/cloud-controller-manager...")
	leads := logged("attempting to acquire leader lease", "successfully acquired lease")
	ownNetwork := func(s *Snapshot) { s.Deployments[0].Spec.Template.Spec.HostNetwork = false }
	second := func(s *Snapshot) {
		s.Pods = append(s.Pods, pod("ccm-2", "w1"))
		s.Pods[1].OwnerReferences = s.Pods[0].OwnerReferences
	}
	other := heldBy("ip-10-0-0-5_1")
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"somebody else", faults{heldBy("rke2-server-1_77"), asks}, "H1(1)>W9(4)"},
		{"somebody on another Node, and no log was read", faults{heldBy("w3.example.org_77")}, "H1(1)>W9(3)>W9(1)"},
		{"a name that is no Node's, and no log was read", faults{other}, "W9(4)"},
		{"the same, of a manager with a network of its own", faults{other, ownNetwork}, "H1(1)>W9(4)"},
		{"the manager itself, whose Node is not called as its machine", faults{other, leads}, "W9(4)"},
		{"one of two pods, whose log was not read", faults{other, asks, second}, "W9(4)"},
		{
			"the manager itself by its full name, beside another one",
			faults{secondManager, heldBy("cp1.example.org_1")},
			"H2(1) W9(1) W9(3)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSnapshot(templates.Deployment, 3, append(faults{tainted}, tt.changes...)...)
			if got := words(Diagnose(s)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestDiagnose_MachineOff: what the cloud says of a machine explains its kubelet's silence, and no other's.
func TestDiagnose_MachineOff(t *testing.T) {
	for want, changes := range map[string]faults{
		"N6(1)":        {switchedOff, away(2)},
		"W14(1) N6(1)": {switchedOff, away(2), away(4)},
		"N2(1)":        {switchedOff},
	} {
		if got := words(Diagnose(newSnapshot(templates.Deployment, 5, changes...))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
