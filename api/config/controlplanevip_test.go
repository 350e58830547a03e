package config

import (
	"strings"
	"testing"
)

// What the API server would refuse of a BGPPeer, before anything is there that could.
func TestDecodeCloudConfiguration_RefusesBGP(t *testing.T) {
	const router = "address: 192.0.2.1, asn: 64500"
	for _, tt := range []struct{ name, vip, wantErr string }{
		{
			name: "on an interface", vip: "interface: eth0, bgp: {localASN: 1, peers: [{" + router + "}]}",
			wantErr: "k.yaml:9: controlPlaneVIP.interface: Forbidden",
		},
		{name: "with nobody", vip: "bgp: {localASN: 64512}", wantErr: "controlPlaneVIP.bgp.peers: Required value"},
		{
			name: "of no autonomous system", vip: "bgp: {peers: [{" + router + "}]}",
			wantErr: "bgp.localASN: Invalid value: 0: must be between 1 and 4294967295",
		},
		{
			name:    "with a router twice, in two spellings",
			vip:     "bgp: {localASN: 1, peers: [{address: '2001:db8::1', asn: 1}, {address: '2001:DB8::1', asn: 1}]}",
			wantErr: "bgp.peers[1].address: Duplicate value",
		},
		{
			name: "with a router by its name", vip: "bgp: {localASN: 1, peers: [{address: tor1, asn: 1}]}",
			wantErr: `bgp.peers[0].address: Invalid value: "tor1"`,
		},
		{
			name: "with a router nowhere", vip: "bgp: {localASN: 1, peers: [{asn: 1}]}",
			wantErr: `bgp.peers[0].address: Invalid value: ""`,
		},
		{
			name: "with a router at two places", vip: "bgp: {localASN: 1, peers: [{" + router + ", interface: eth1}]}",
			wantErr: "bgp.peers[0].interface: Forbidden: must have either address or interface",
		},
		{
			name: "with a router at no interface", vip: "bgp: {localASN: 1, peers: [{interface: eth1%7, asn: 1}]}",
			wantErr: `bgp.peers[0].interface: Invalid value: "eth1%7"`,
		},
		{
			name: "with an interface twice", vip: "bgp: {localASN: 1, peers: [{interface: eth1, asn: 1}, {interface: eth1, asn: 2}]}",
			wantErr: "bgp.peers[1].interface: Duplicate value",
		},
		{
			name: "with a router behind an interface", vip: "bgp: {localASN: 1, peers: [{interface: eth1, asn: 1, multiHop: 2}]}",
			wantErr: "bgp.peers[0].multiHop: Forbidden",
		},
		{
			name: "with a router of no port", vip: "bgp: {localASN: 1, peers: [{" + router + ", port: 65536}]}",
			wantErr: "bgp.peers[0].port: Invalid value: 65536",
		},
		{
			name: "with a hold time that it does not have", vip: "bgp: {localASN: 1, peers: [{" + router + ", holdTime: 1s}]}",
			wantErr: `holdTime: Invalid value: "1s": must be between 3s and 18h12m15s`,
		},
		{
			name:    "and BFD over several hops",
			vip:     "bgp: {localASN: 1, peers: [{" + router + ", multiHop: 2, bfd: {enabled: true}}]}",
			wantErr: "peers[0].bfd.enabled: Forbidden",
		},
		{
			name: "and BFD that gives up at once", vip: "bgp: {localASN: 1, peers: [{" + router + ", bfd: {multiplier: 1}}]}",
			wantErr: "peers[0].bfd.multiplier: Invalid value: 1: must be between 2 and 50",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := DecodeCloudConfiguration("k.yaml", 7, []byte(configHead+"controlPlaneVIP: {"+tt.vip+"}"))
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// Nobody asks the API server while the pod is away: no router keeps its path.
func TestControlPlaneVIPBGP_PeerSpecs(t *testing.T) {
	const doc = "controlPlaneVIP: {bgp: {localASN: 1, peers: [{address: 192.0.2.1, asn: 2, port: 1179, bfd: {enabled: true}}]}}"
	c, err := DecodeCloudConfiguration("k.yaml", 7, []byte(configHead+doc))
	if err != nil {
		t.Fatal(err)
	}
	specs := c.ControlPlaneVIP.BGP.PeerSpecs()
	if len(specs) != 1 || specs[0].ASN != 2 || specs[0].LocalASN != 1 || specs[0].Port != 1179 || !*specs[0].BFD.Enabled ||
		specs[0].GracefulRestart == nil || *specs[0].GracefulRestart {
		t.Errorf("routers are %+v", specs)
	}
}

func TestControlPlaneVIPBGP_Unnumbered(t *testing.T) {
	const doc = "controlPlaneVIP: {address: 203.0.113.10, bgp: {localASN: 1, peers: [{interface: eth1, asn: 2}, {interface: eth2}]}}"
	c, err := DecodeCloudConfiguration("k.yaml", 7, []byte(configHead+doc))
	if err != nil {
		t.Fatal(err)
	}
	if specs := c.ControlPlaneVIP.BGP.PeerSpecs(); len(specs) != 2 || specs[1].Interface != "eth2" || specs[1].Address != "" {
		t.Errorf("routers are %+v", specs)
	}
}
