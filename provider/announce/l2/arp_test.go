package l2

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
)

func TestARP(t *testing.T) {
	// From a capture: who has 198.18.0.1, tell 198.18.0.9, with Ethernet's padding.
	captured := []byte{
		0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 198, 18, 0, 9, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	}
	p, err := decodeARP(captured)
	if err != nil {
		t.Fatal(err)
	}
	if p.operation != arpRequest || p.sender != netip.MustParseAddr("198.18.0.9") || p.target != netip.MustParseAddr("198.18.0.1") ||
		p.senderMAC.String() != "02:00:00:00:00:09" {
		t.Errorf("got %+v", p)
	}
	if got := p.encode(); !bytes.Equal(got, captured[:arpSize]) {
		t.Errorf("encoded again: % x", got)
	}
	mac, address := net.HardwareAddr{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("198.18.0.1")
	if p := probeARP(mac, address); !p.sender.IsUnspecified() || p.target != address {
		t.Errorf("a probe that says somebody has the address: %+v", p)
	}
	for _, p := range gratuitousARP(mac, address) {
		if p.sender != address || p.target != address || !bytes.Equal(p.senderMAC, mac) {
			t.Errorf("got %+v", p)
		}
	}
}

func FuzzARP(f *testing.F) {
	f.Add(probeARP(net.HardwareAddr{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("198.18.0.1")).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodeARP(data)
		if err != nil {
			return
		}
		if got := p.encode(); !bytes.Equal(got, data[:arpSize]) {
			t.Errorf("% x became % x", data[:arpSize], got)
		}
	})
}
