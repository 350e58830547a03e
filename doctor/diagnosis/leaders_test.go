package diagnosis

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

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

// Two ask for one Lease where its name is known, both initialize Nodes, and they differ in more than what they log.
func TestSharedLease(t *testing.T) {
	profile, err := templates.Load(cloud)
	if err != nil {
		t.Fatal(err)
	}
	one := func(name string, known bool, args ...string) manager {
		p := pod(name, "w1")
		p.Spec.Containers[0].Args = args
		m := manager{object: "Pod/kube-system/" + name, pod: &p.Spec, pods: []*corev1.Pod{&p}}
		if m.Args = templates.ReadArgs(p.Spec.Containers[0]); known {
			m.Profile = profile
		}
		return m
	}
	const lease = "--leader-elect-resource-name=x"
	for _, tt := range []struct {
		name  string
		known bool
		args  [2][]string
		want  int
	}{
		{"different arguments", true, [2][]string{{"--concurrent-node-syncs=9"}, nil}, 1},
		{"different logs", true, [2][]string{{"--v=4", "--vmodule=node=6"}, {"--v=2"}}, 0},
		{"programs that are not known", false, [2][]string{{"--concurrent-node-syncs=9"}, nil}, 0},
		{"programs that are not known, whose arguments say the Lease", false, [2][]string{{"--concurrent-node-syncs=9", lease}, {lease}}, 1},
		{"without the controller, by its alias", true, [2][]string{{"--controllers=*,-cloud-node"}, nil}, 0},
		{"without the controller, where the flag is given again", true, [2][]string{{"--controllers=-cloud-node-controller", "--controllers=*"}, nil}, 0},
		{"with the controller alone, by its alias", true, [2][]string{{"--controllers=cloud-node"}, nil}, 1},
		{"with another controller alone", true, [2][]string{{"--controllers=service"}, nil}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := sharedLease([]manager{one("a", tt.known, tt.args[0]...), one("b", tt.known, tt.args[1]...)}); len(got) != tt.want {
				t.Errorf("got %+v, want %d", got, tt.want)
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
