package diagnosis

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/templates"
)

// What a later version ends is a note: nothing is wrong, and no Node has it for its cause.
func TestDiagnose_Ahead(t *testing.T) {
	at140 := func(s *Snapshot) {
		s.Version = "v1.40.0"
		for i := range s.Nodes {
			s.Nodes[i].Status.NodeInfo.KubeletVersion = "v1.40.0"
		}
	}
	old := func(s *Snapshot) { s.Nodes[1].Status.NodeInfo.ContainerRuntimeVersion = "containerd://1.7.27" }
	for _, tt := range []struct {
		name   string
		change func(*Snapshot)
		want   string // the findings
		wrong  bool
	}{
		{"kube-proxy as kubeadm has it", func(s *Snapshot) { s.ProxyMode = "iptables" }, "", false},
		{"mode nftables", func(s *Snapshot) { s.ProxyMode = "nftables" }, "", false},
		{"mode ipvs", func(s *Snapshot) { s.ProxyMode = "ipvs" }, "note U17", false},
		{"mode ipvs, when it is off", func(s *Snapshot) { s.ProxyMode = "ipvs"; at140(s) }, "warning U17", true},
		{"mode ipvs, of a cluster without a version", func(s *Snapshot) { s.ProxyMode, s.Version = "ipvs", "" }, "note U17", false},
		{"externalIPs", func(s *Snapshot) { s.ExternalIPs = []string{"Service/default/web", "Service/default/api"} }, "note U18", false},
		{"containerd 1.x", old, "note U16", false},
		{"containerd 1.x, and a kubelet that asks it", func(s *Snapshot) {
			old(s)
			at140(s)
		}, "error U16", true},
		{"containerd 2, CRI-O", func(s *Snapshot) {
			s.Nodes[0].Status.NodeInfo.ContainerRuntimeVersion = "containerd://2.1.5"
			s.Nodes[1].Status.NodeInfo.ContainerRuntimeVersion = "cri-o://1.36.0"
		}, "", false},
		{"this machine's containerd", func(s *Snapshot) {
			s.Host = &Host{Name: "w1", Node: "w1", Version: "v1.37.2", Runtime: &HostRuntime{Version: "1.7.27"}}
		}, "note U16", false},
		{"this machine's, whose version is not known", func(s *Snapshot) {
			s.Host = &Host{Name: "w1", Node: "w1", Version: "v1.37.2", Runtime: &HostRuntime{}}
		}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.DaemonSet, 2, tt.change))
			var got []string
			for _, c := range d.Causes {
				if c.ID == "U16" || c.ID == "U17" || c.ID == "U18" {
					got = append(got, string(c.Severity)+" "+string(c.ID))
				}
			}
			if text := strings.Join(got, ", "); text != tt.want || d.Wrong() != tt.wrong {
				t.Errorf("got %q, wrong: %v; want %q, %v", text, d.Wrong(), tt.want, tt.wrong)
			}
			var text, why bytes.Buffer
			if err := d.WriteText(&text, false); err != nil || strings.Contains(text.String(), "nothing is wrong\n") == tt.wrong {
				t.Errorf("%v\n%s", err, text.String())
			}
			of := d.Why("w1")
			wrong, err := of.Cause != nil, of.WriteText(&why)
			if err != nil || wrong != (tt.wrong && tt.want == "error U16") || !tt.wrong && strings.Contains(why.String(), "U1") {
				t.Errorf("%v, %v\n%s", wrong, err, why.String())
			}
		})
	}
}
