package l2

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
)

const (
	arpRequest = 1
	arpReply   = 2
	arpSize    = 28
)

// arpPacket is one of RFC 826, for Ethernet and IPv4.
type arpPacket struct {
	operation uint16
	senderMAC net.HardwareAddr
	sender    netip.Addr
	targetMAC net.HardwareAddr
	target    netip.Addr
}

// errNoARP is what is wrong with what is none, or of other hardware.
var errNoARP = errors.New("read ARP: it is not one of Ethernet and IPv4")

func (p arpPacket) encode() []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, arpSize), 1) // Ethernet
	b = binary.BigEndian.AppendUint16(b, 0x0800)                    // IPv4
	b = append(b, 6, 4)
	b = binary.BigEndian.AppendUint16(b, p.operation)
	b = append(append(b, p.senderMAC...), p.sender.AsSlice()...)
	return append(append(b, p.targetMAC...), p.target.AsSlice()...)
}

// decodeARP reads what follows the Ethernet header. Padding at the end is usual.
func decodeARP(b []byte) (arpPacket, error) {
	if len(b) < arpSize || binary.BigEndian.Uint16(b) != 1 || binary.BigEndian.Uint16(b[2:]) != 0x0800 || b[4] != 6 || b[5] != 4 {
		return arpPacket{}, errNoARP
	}
	return arpPacket{
		operation: binary.BigEndian.Uint16(b[6:]),
		senderMAC: net.HardwareAddr(b[8:14:14]), sender: netip.AddrFrom4([4]byte(b[14:18])),
		targetMAC: net.HardwareAddr(b[18:24:24]), target: netip.AddrFrom4([4]byte(b[24:28])),
	}, nil
}

// broadcast is to everybody on a network.
func broadcast() net.HardwareAddr { return net.HardwareAddr{255, 255, 255, 255, 255, 255} }

// gratuitousARP are the two forms in which hosts learn that the address is at this MAC: some heed requests only, and
// some replies.
func gratuitousARP(mac net.HardwareAddr, address netip.Addr) []arpPacket {
	return []arpPacket{
		{arpRequest, mac, address, make(net.HardwareAddr, 6), address},
		{arpReply, mac, address, broadcast(), address},
	}
}

// probeARP asks who has the address, without saying that anybody does (RFC 5227).
func probeARP(mac net.HardwareAddr, address netip.Addr) arpPacket {
	return arpPacket{arpRequest, mac, netip.IPv4Unspecified(), make(net.HardwareAddr, 6), address}
}
