package l2

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/mdlayher/ndp"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netns"
	"golang.org/x/net/bpf"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// segment is an interface on which addresses are answered for. Its sockets get ARP and neighbour discovery only.
type segment struct {
	name string
	mac  net.HardwareAddr
	arp  *packet.Conn
	ndp  *ndp.Conn  // none where the interface has no link-local address (yet)
	from netip.Addr // that address
	out  *ipv6.ControlMessage

	noNDP    error          // why there is none
	ndpAgain quorum.Instant // when the interface is looked at for a link-local address again

	groups groups // of IPv6
	ended  sync.WaitGroup
}

// frame is what a segment has received: it is asked for an address, or says that it has it.
type frame struct {
	segment *segment
	mac     net.HardwareAddr // whose, as far as it says so
	from    netip.Addr       // unspecified where somebody probes
	asks    netip.Addr       // the address that it wants to know about, if any
	has     netip.Addr       // the address that it says it has, if any
}

// openSegment opens sockets on an interface, and calls receive with each frame until close.
func openSegment(namespace netns.NsHandle, name string, receive func(frame)) (*segment, error) {
	s := &segment{name: name, groups: groups{namespace: namespace, joined: map[netip.Addr]*group{}}}
	err := enter(namespace, func() error {
		i, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		s.mac, s.out, s.groups.index = i.HardwareAddr, &ipv6.ControlMessage{IfIndex: i.Index}, i.Index
		filter, err := notOfOthers()
		if err != nil {
			return err
		}
		s.arp, err = packet.Listen(i, packet.Datagram, unix.ETH_P_ARP, &packet.Config{Filter: filter})
		return err
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("listen for ARP on %s: %w", name, err)
	}
	s.listenNDP(namespace, receive)
	s.ended.Go(func() { s.readARP(receive) })
	return s, nil
}

// notOfOthers leaves out frames to other machines, and those of VLANs that this machine does not have: the kernel marks
// both as PACKET_OTHERHOST. A host in another VLAN may have the same address. Sockets of ICMPv6 get neither.
func notOfOthers() ([]bpf.RawInstruction, error) {
	return bpf.Assemble([]bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OTHERHOST, SkipTrue: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
}

func (s *segment) close() {
	if s.arp != nil {
		_ = s.arp.Close() // it has nothing to lose
	}
	if s.ndp != nil {
		_ = s.ndp.Close()
	}
	s.groups.close()
}

func (s *segment) readARP(receive func(frame)) {
	buffer := make([]byte, 256)
	for {
		n, _, err := s.arp.ReadFrom(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if gone(err) {
				return
			}
			continue // the interface went down, for instance; it may come up again
		}
		p, err := decodeARP(buffer[:n])
		if err != nil {
			continue
		}
		f := frame{segment: s, mac: append(net.HardwareAddr(nil), p.senderMAC...), from: p.sender}
		if !p.sender.IsUnspecified() {
			f.has = p.sender
		}
		if p.operation == arpRequest && p.sender != p.target {
			f.asks = p.target
		}
		receive(f)
	}
}

// gone is an error after which a socket gives nothing any more.
func gone(err error) bool {
	return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EBADF)
}

// answer tells who asks that the address is here. Who only probes has no address to be told at.
func (s *segment) answer(f frame) error {
	if f.asks.Is4() {
		return s.sendARP(f.mac, arpPacket{arpReply, s.mac, f.asks, f.mac, f.from})
	}
	to := f.from
	if to.IsUnspecified() {
		to = netip.IPv6LinkLocalAllNodes()
	}
	return s.advertise(f.asks, to, !f.from.IsUnspecified())
}

// sendGratuitousARP tells all hosts that the address is here: by ARP, or for IPv6 by an unsolicited neighbour advertisement.
func (s *segment) sendGratuitousARP(address netip.Addr) error {
	if !address.Is4() {
		return s.advertise(address, netip.IPv6LinkLocalAllNodes(), false)
	}
	var errs []error
	for _, p := range gratuitousARP(s.mac, address) {
		errs = append(errs, s.sendARP(broadcast(), p))
	}
	return errors.Join(errs...)
}

// ask asks everybody for the address, as somebody who has not got it.
func (s *segment) ask(address netip.Addr) error {
	if address.Is4() {
		return s.sendARP(broadcast(), probeARP(s.mac, address))
	}
	if s.ndp == nil {
		return fmt.Errorf("ask for %s: %s has no link-local address", address, s.name)
	}
	group, err := ndp.SolicitedNodeMulticast(address)
	if err != nil {
		return err
	}
	return s.ndp.WriteTo(&ndp.NeighborSolicitation{
		TargetAddress: address,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: s.mac}},
	}, s.out, group)
}

func (s *segment) sendARP(to net.HardwareAddr, p arpPacket) error { return s.send(to, p.encode()) }

func (s *segment) send(to net.HardwareAddr, arp []byte) error {
	_, err := s.arp.WriteTo(arp, &packet.Addr{HardwareAddr: to})
	return err
}
