package diagnosis

import (
	"testing"

	"github.com/ccmadm/ccmadm/templates"
)

// A bridge is judged by the families of its pods, and where kube-proxy has rules.
func TestDiagnose_Bridge(t *testing.T) {
	const ipv4, ipv6 = "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables"
	for name, tt := range map[string]struct {
		off, off6 bool
		cidrs     []string // of the Node's pods; nil: its Node was not seen
		service   *HostService
		want      string // the settings
	}{
		"IPv4":                           {off: true, off6: true, cidrs: []string{"10.244.0.0/24"}, want: ipv4},
		"both":                           {off: true, off6: true, cidrs: []string{"10.244.0.0/24", "fd00:1::/64"}, want: ipv4 + " and " + ipv6},
		"IPv6 alone":                     {off: true, off6: true, cidrs: []string{"fd00:1::/64"}, want: ipv6},
		"IPv6 alone, and seen":           {off: true, cidrs: []string{"fd00:1::/64"}},
		"IPv6 of two families is unseen": {off6: true, cidrs: []string{"10.244.0.0/24", "fd00:1::/64"}, want: ipv6},
		"the pods' network is not known": {off: true, off6: true, want: ipv4},
		"kube-proxy":                     {off: true, service: &HostService{Proxy: "kube-proxy-1"}, want: ipv4},
		"another program serves":         {off: true, service: &HostService{}},
	} {
		s := newSnapshot(templates.StaticPod, 1)
		s.Host = &Host{Name: "cp1", Node: "cp1", BridgeUnseen: tt.off, Bridge6Unseen: tt.off6, Service: tt.service}
		if tt.cidrs != nil {
			s.Host.Registered = &HostNode{Name: "cp1", Ready: true, PodCIDRs: tt.cidrs}
		}
		d := Diagnose(s)
		if tt.want == "" && len(d.Causes) > 0 || tt.want != "" && (len(d.Causes) != 1 || d.Causes[0].ID != "K20" ||
			d.Causes[0].Message != "pods are at bridge cni0, and "+tt.want+" is not 1") {
			t.Errorf("%s: got %s %+v", name, words(d), d.Causes)
		}
	}
}
