package l2

import (
	"net"
	"net/netip"
	"testing"

	"github.com/mdlayher/ndp"
)

// Whatever the kernel hands over, a frame has a target that an answer can be made of, and a MAC of six bytes or none.
func FuzzNDP(f *testing.F) {
	target, mac := netip.MustParseAddr("fd08::100"), net.HardwareAddr{2, 0, 0, 0, 0, 1}
	source := []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac}}
	own := []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: mac}}
	for _, message := range []ndp.Message{
		&ndp.NeighborSolicitation{TargetAddress: target, Options: source},
		&ndp.NeighborAdvertisement{TargetAddress: target, Options: own},
	} {
		data, err := ndp.MarshalMessage(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		message, err := ndp.ParseMessage(data)
		if err != nil {
			return
		}
		got := frameOf(nil, message, netip.MustParseAddr("fe80::1%eth0"))
		if len(got.mac) != 0 && len(got.mac) != 6 {
			t.Errorf("% x: a MAC of %d bytes", data, len(got.mac))
		}
		if got.asks.IsValid() {
			if _, err := ndp.SolicitedNodeMulticast(got.asks); err != nil && !got.asks.Is4In6() {
				t.Errorf("% x asks for %s: %v", data, got.asks, err)
			}
		}
	})
}
