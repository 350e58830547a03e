package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ndp"
)

// Neighbour is somebody who answers for an address in the network of an interface.
type Neighbour struct {
	// MAC is its hardware address.
	MAC string `json:"mac"`
	// After is how long the answer took, in nanoseconds.
	After time.Duration `json:"after"`
}

// NeighbourPatience is how long the network is given to answer: three questions 100 ms apart, and as much again after
// the last, doubled for a busy machine (RFC 5227 section 2.1.1 with the constants shortened for a wired network).
const NeighbourPatience = time.Second

// AskNeighbours asks the network of an interface who has the address, by ARP or NDP, and returns all who answer within
// NeighbourPatience: two of them are a conflict. It needs CAP_NET_RAW. The machine itself does not answer.
func AskNeighbours(ctx context.Context, ifi *net.Interface, addr netip.Addr) ([]Neighbour, error) {
	ask := askARP
	if addr.Is6() {
		ask = askNDP
	}
	found, err := ask(ctx, ifi, addr)
	if err != nil {
		return nil, fmt.Errorf("ask who has %s on %s: %w", addr, ifi.Name, err)
	}
	return found, nil
}

// ErrNoSubnet is that no interface has a subnet that holds an address.
var ErrNoSubnet = errors.New("no interface of this machine has a subnet that holds")

// FindInterface is the one with a subnet that holds the address, or the one that is named.
func FindInterface(name string, addr netip.Addr) (*net.Interface, error) {
	if name != "" {
		ifi, err := net.InterfaceByName(name)
		if err != nil {
			return nil, fmt.Errorf("find interface %s: %w", name, err)
		}
		return ifi, nil
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for i := range all {
		subnets, err := all[i].Addrs()
		if err != nil || all[i].Flags&net.FlagUp == 0 {
			continue
		}
		for _, s := range subnets {
			if p, err := netip.ParsePrefix(s.String()); err == nil && p.Bits() < addr.BitLen() && p.Masked().Contains(addr) {
				return &all[i], nil
			}
		}
	}
	return nil, fmt.Errorf("%w %s", ErrNoSubnet, addr)
}

// listener is what both protocols read from: one message, and who it says has the address.
type listener struct {
	ask  func() error
	read func() (mac net.HardwareAddr, ok bool, err error)
	stop func(time.Time) error
}

// collect asks three times, and listens until the time is up.
func (l listener) collect(ctx context.Context) ([]Neighbour, error) {
	start := time.Now()
	if err := l.stop(start.Add(NeighbourPatience)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = l.stop(time.Now()) })() // the end of the caller ends the reading
	asked := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 3 && err == nil; i++ {
			err = l.ask()
			time.Sleep(NeighbourPatience / 10)
		}
		asked <- err
	}()
	var found []Neighbour
	for {
		mac, ok, err := l.read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return found, errors.Join(<-asked, ctx.Err())
		}
		if err != nil {
			<-asked
			return nil, err
		}
		if ok {
			found = addNeighbour(found, Neighbour{MAC: mac.String(), After: time.Since(start)})
		}
	}
}

// addNeighbour keeps the first answer of each.
func addNeighbour(list []Neighbour, n Neighbour) []Neighbour {
	for _, known := range list {
		if known.MAC == n.MAC {
			return list
		}
	}
	return append(list, n)
}

// askARP asks as a machine without address does (RFC 5227), so that nobody learns anything from it.
func askARP(ctx context.Context, ifi *net.Interface, addr netip.Addr) ([]Neighbour, error) {
	client, err := arp.Dial(ifi)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Close() }()
	probe, err := arp.NewPacket(arp.OperationRequest, ifi.HardwareAddr, net.IPv4zero.To4(), make(net.HardwareAddr, 6), addr.AsSlice())
	if err != nil {
		return nil, err
	}
	broadcast := net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	return listener{
		ask:  func() error { return client.WriteTo(probe, broadcast) },
		stop: client.SetDeadline,
		read: func() (net.HardwareAddr, bool, error) {
			p, _, err := client.Read()
			if err != nil {
				return nil, false, err
			}
			return p.SenderHardwareAddr, p.SenderIP.Equal(addr.AsSlice()) && !bytes.Equal(p.SenderHardwareAddr, ifi.HardwareAddr), nil
		},
	}.collect(ctx)
}

// askNDP asks from the interface's link-local address.
func askNDP(ctx context.Context, ifi *net.Interface, addr netip.Addr) ([]Neighbour, error) {
	conn, _, err := ndp.Listen(ifi, ndp.LinkLocal)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	group, err := ndp.SolicitedNodeMulticast(addr)
	if err != nil {
		return nil, err
	}
	question := &ndp.NeighborSolicitation{
		TargetAddress: addr,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: ifi.HardwareAddr}},
	}
	return listener{
		ask:  func() error { return conn.WriteTo(question, nil, group) },
		stop: conn.SetDeadline,
		read: func() (net.HardwareAddr, bool, error) {
			message, _, _, err := conn.ReadFrom()
			if err != nil {
				return nil, false, err
			}
			mac, ok := targetOf(message, addr)
			return mac, ok, nil
		},
	}.collect(ctx)
}

// targetOf is the hardware address that an advertisement gives for the address.
func targetOf(message ndp.Message, addr netip.Addr) (net.HardwareAddr, bool) {
	answer, ok := message.(*ndp.NeighborAdvertisement)
	if !ok || answer.TargetAddress != addr {
		return nil, false
	}
	for _, o := range answer.Options {
		if link, ok := o.(*ndp.LinkLayerAddress); ok && link.Direction == ndp.Target {
			return link.Addr, true
		}
	}
	return nil, false
}
