package l2

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netns"
	"golang.org/x/net/ipv6"
)

// ndpPause is how often an interface without a link-local address is looked at for one, however many addresses wait. It
// is less than the time after which they are tried again.
const ndpPause = 500 * time.Millisecond

// listenNDP opens the socket for neighbour discovery, unless it is open or the interface has no link-local address
// (yet). ARP goes on as it is. The caller has the Announcer's lock.
func (s *segment) listenNDP(namespace netns.NsHandle, receive func(frame)) {
	now := bootTime()
	if s.ndp != nil || now < s.ndpAgain {
		return
	}
	s.ndpAgain = now + ndpPause
	filter := ipv6.ICMPFilter{}
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeNeighborSolicitation)
	filter.Accept(ipv6.ICMPTypeNeighborAdvertisement)
	s.noNDP = enter(namespace, func() error {
		i, err := net.InterfaceByIndex(s.out.IfIndex)
		if err != nil {
			return err
		}
		conn, from, err := ndp.Listen(i, ndp.LinkLocal)
		if err != nil {
			return err
		}
		if err := conn.SetICMPFilter(&filter); err != nil {
			_ = conn.Close()
			return err
		}
		s.ndp, s.from = conn, from
		s.ended.Go(func() { s.readNDP(conn, receive) })
		return nil
	})
}

func (s *segment) readNDP(conn *ndp.Conn, receive func(frame)) {
	for {
		message, _, from, err := conn.ReadFrom()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if gone(err) {
				return
			}
			continue // somebody's bad packet
		}
		receive(frameOf(s, message, from))
	}
}

// frameOf reads a message of neighbour discovery.
func frameOf(s *segment, message ndp.Message, from netip.Addr) frame {
	f := frame{segment: s, from: from.WithZone("")}
	switch m := message.(type) {
	case *ndp.NeighborSolicitation:
		f.asks, f.mac = m.TargetAddress, linkAddress(m.Options, ndp.Source)
	case *ndp.NeighborAdvertisement:
		f.has, f.mac = m.TargetAddress, linkAddress(m.Options, ndp.Target)
	}
	return f
}

func linkAddress(options []ndp.Option, direction ndp.Direction) net.HardwareAddr {
	for _, option := range options {
		if o, ok := option.(*ndp.LinkLayerAddress); ok && o.Direction == direction {
			return o.Addr
		}
	}
	return nil
}

// able says what keeps the segment from answering for the address; nil: nothing.
func (s *segment) able(address netip.Addr) error {
	if address.Is4() || s.ndp != nil {
		return nil
	}
	return fmt.Errorf("answer for %s: %s has no link-local address that can be used: %w", address, s.name, s.noNDP)
}

// join listens to those who ask for the address: of IPv6, their multicast group differs. The caller has the Announcer's lock.
func (s *segment) join(address netip.Addr) error {
	if address.Is4() {
		return nil
	}
	if err := s.groups.join(address); err != nil {
		return fmt.Errorf("answer for %s on %s: %w", address, s.name, err)
	}
	return nil
}

// leave ends that. The caller has the Announcer's lock.
func (s *segment) leave(address netip.Addr) {
	if !address.Is4() {
		s.groups.leave(address)
	}
}

func (s *segment) advertise(address, to netip.Addr, solicited bool) error {
	if s.ndp == nil {
		return fmt.Errorf("advertise %s: %s has no link-local address", address, s.name)
	}
	return s.ndp.WriteTo(&ndp.NeighborAdvertisement{
		Solicited: solicited, Override: true, TargetAddress: address,
		Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: s.mac}},
	}, s.out, to)
}
