package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// nobody has neither a manager nor a Lease of one.
func nobody(s *Snapshot) { s.Deployments, s.Pods, s.Leases = nil, nil, nil }

func plainNodes(s *Snapshot) {
	for i := range s.Nodes {
		s.Nodes[i].Spec.ProviderID, s.Nodes[i].Labels = "", nil
	}
}

func flags(mode string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Flags = map[string]string{}
		for _, n := range s.Nodes {
			s.Flags[n.Name] = mode
		}
	}
}

// TestDiagnose_Unmanaged: no Node is told to be tainted which nobody would initialize.
func TestDiagnose_Unmanaged(t *testing.T) {
	vip := func(s *Snapshot) {
		p := pod("kube-vip-cloud-provider-0", "w1")
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Args = "ghcr.io/kube-vip/kube-vip-cloud-provider:v0.0.12", nil
		s.Pods = []corev1.Pod{p}
	}
	held := func(name string) func(*Snapshot) {
		return func(s *Snapshot) { s.Leases = append(s.Leases, lease(v1alpha1.Namespace, name, "cp1_1", time.Second)) }
	}
	recorded := func(s *Snapshot) { s.Provider, s.Mode = cloud, "Manual" }
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"plain kubeadm", faults{nobody, plainNodes, flags("")}, "W20(1)"},
		{"plain kubeadm, whose kubelets do not tell", faults{nobody, plainNodes}, "W20(1)"},
		{"after ccmadm leave, which keeps the Lease", faults{stale, func(s *Snapshot) { s.Deployments, s.Pods = nil, nil }, plainNodes, flags("")}, "W20(1)"},
		{"leave was killed after its last step", faults{nobody, plainNodes, flags(""), func(s *Snapshot) {
			s.Unfinished = &Unfinished{Run: 4, Command: "leave", Machine: "cp1", Line: "ccmadm leave", Done: 9}
		}}, "W20(1)"},
		{"kube-vip's cloud provider only", faults{nobody, vip, plainNodes, flags("")}, "W20(1)"},
		{"provider IDs of the kubelets'", faults{nobody, flags("")}, "W20(1)"},
		{"a kubelet is silent", faults{nobody, plainNodes, flags(""), away(1)}, "W14(1) W20(1)"},
		{"kubelets in external mode", faults{nobody, plainNodes, flags("external")}, "W2(4) W20(1)"},
		{"Nodes wait", faults{nobody, tainted}, "W20(4)"},
		{"a record", faults{nobody, plainNodes, flags(""), recorded}, "A1(4) W20(1)"},
		{"in another program", faults{nobody, plainNodes, flags(""), held("k3s-cloud-controller-manager")}, "A1(4) W20(1)"},
		{"workloads not seen", faults{nobody, plainNodes, flags(""), without(partDeployments)}, "A1(4) W13(1)"},
		{"a manager that leads", faults{untainted, flag("w1", "")}, "A1(1)"},
		{"a virtual Node, whose version is not a kubelet's", faults{func(s *Snapshot) {
			s.Nodes[1].Spec.ProviderID, s.Nodes[1].Labels = "", map[string]string{"type": "virtual-kubelet"}
			s.Nodes[1].Status.NodeInfo.KubeletVersion = "v1.19.10-vk-azure-aci-v1.4.1"
		}}, ""},
		{"adopt stopped halfway", faults{untainted, flag("w1", ""), func(s *Snapshot) {
			s.Unfinished = &Unfinished{Run: 3, Command: "adopt", Machine: "cp1", Line: "ccmadm adopt --via=pods", Step: "step kubelet of Node/w1", Done: 4}
		}}, "O3(1)>A1(1)"},
		{"a manager that does not lead", faults{stale, untainted, flag("w1", "")}, "A1(1) W7(1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSnapshot(templates.Deployment, 3, tt.changes...)
			d := Diagnose(s)
			if got := words(d); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			for _, f := range d.Findings() {
				if taints := strings.Contains(f.Next, "kubectl taint"); taints != (f.ID == "A1" && newView(s).leads()) {
					t.Errorf("%s: next %s", f.ID, f.Next)
				}
			}
		})
	}
}

// TestDiagnose_AddressTwice: of machines whose first link is a NAT of its own, each has the address of the others.
func TestDiagnose_AddressTwice(t *testing.T) {
	nat := func(nodes ...int) func(*Snapshot) {
		return func(s *Snapshot) {
			for _, i := range nodes {
				s.Nodes[i].Status.Addresses = append([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.2.15"}}, s.Nodes[i].Status.Addresses...)
			}
		}
	}
	for want, changes := range map[string]faults{
		"N8(4)": {nat(0, 1, 2, 3)},
		"N8(2)": {nat(1, 2)},
		"N8(2)>T4(1)": {nat(1, 2), func(s *Snapshot) {
			s.Answers.Unreached = map[string]string{"w1": "dial tcp 10.0.2.15:10250: i/o timeout"}
		}},
		"":       {nat(1)},
		"W14(1)": {nat(1, 2), away(1)},
	} {
		if got := words(Diagnose(newSnapshot(templates.Deployment, 3, changes...))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestZones: whom the provider does not know it cannot initialize again.
func TestZones(t *testing.T) {
	bare := func(s *Snapshot) { s.Nodes[2].Labels = nil }
	static := func(s *Snapshot) { s.Nodes[2].Spec.ProviderID = "static://w2" }
	for name, tt := range map[string]struct {
		changes faults
		want    string
	}{
		"of the same provider":   {faults{bare}, "kubectl taint node w2 " + v1alpha1.UninitializedTaint + "=true:NoSchedule"},
		"nobody leads":           {faults{bare, stale}, "once a cloud-controller-manager is the leader: ccmadm doctor"},
		"of a provider's own":    {faults{bare, static}, "kubectl label node w2 topology.kubernetes.io/zone=ZONE"},
		"the same, nobody leads": {faults{bare, static, stale}, "kubectl label node w2 topology.kubernetes.io/zone=ZONE"},
	} {
		list := zones(newView(newSnapshot(templates.Deployment, 3, tt.changes...)))
		if len(list) != 1 || list[0].Next != tt.want {
			t.Errorf("%s: got %+v, want %s", name, list, tt.want)
		}
	}
}
