package manifests

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// By BGP the pod reads nothing but the CA, and may send no ARP.
func TestVIPPod_ByBGP(t *testing.T) {
	list, err := parseOne(VIPPod(onprem(t), values(templates.StaticPod), VIP{
		NodeName: "cp1", NodeAddress: netip.MustParseAddr("192.0.2.11"), Port: 6443, CertificatesDir: "/etc/kubernetes/pki",
		Address: netip.MustParseAddr("203.0.113.10"),
		BGP: &config.ControlPlaneVIPBGP{LocalASN: 64512, Peers: []config.ControlPlaneVIPPeer{
			{Address: "192.0.2.1", ASN: 64500, BFD: v1alpha1.PeerBFD{Enabled: new(true)}},
		}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, list)
}

// Routers that are known by an interface are found by packets that only raw sockets send.
func TestVIPPod_Unnumbered(t *testing.T) {
	data, err := VIPPod(onprem(t), values(templates.StaticPod), VIP{
		NodeName: "cp1", NodeAddress: netip.MustParseAddr("192.0.2.11"), Port: 6443, CertificatesDir: "/etc/kubernetes/pki",
		Address: netip.MustParseAddr("203.0.113.10"),
		BGP:     &config.ControlPlaneVIPBGP{LocalASN: 64512, Peers: []config.ControlPlaneVIPPeer{{Interface: "eth1", ASN: 64500}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "- NET_RAW") {
		t.Errorf("the pod cannot hear router advertisements:\n%s", data)
	}
}
