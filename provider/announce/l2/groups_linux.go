package l2

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/ndp"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// groups are the solicited-node groups of the addresses that an interface answers for. Several addresses may share one, and neighbours ask for
// an address in its group.
//
// A socket has room for some hundred groups (net.core.optmem_max), so there are as many sockets as that takes. They receive nothing: the socket
// of neighbour discovery gets the messages to all groups that the machine has joined. The switch and the network card learn the groups, too,
// which packets for all groups (PACKET_MR_ALLMULTI) would not achieve: switches send to a group where a host has joined it (MLD snooping).
type groups struct {
	namespace netns.NsHandle
	index     int // of the interface
	sockets   []int
	joined    map[netip.Addr]*group
}

// group is one that was joined.
type group struct {
	socket    int
	addresses map[netip.Addr]bool
}

// join has messages arrive that ask for the address.
func (g *groups) join(address netip.Addr) error {
	to, err := ndp.SolicitedNodeMulticast(address)
	if err != nil {
		return err
	}
	if at := g.joined[to]; at != nil {
		at.addresses[address] = true
		return nil
	}
	socket, err := g.member(to)
	if err != nil {
		return fmt.Errorf("join %s: %w", to, err)
	}
	g.joined[to] = &group{socket, map[netip.Addr]bool{address: true}}
	return nil
}

// member makes a socket a member of the group: one that has room, or a new one.
func (g *groups) member(of netip.Addr) (int, error) {
	for _, socket := range g.sockets {
		if err := g.set(socket, unix.IPV6_JOIN_GROUP, of); !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.ENOBUFS) {
			return socket, err
		}
	}
	socket := -1
	err := enter(g.namespace, func() (err error) {
		socket, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("open a socket: %w", err)
	}
	if err := g.set(socket, unix.IPV6_JOIN_GROUP, of); err != nil {
		_ = unix.Close(socket) // it has nothing to lose
		return -1, err
	}
	g.sockets = append(g.sockets, socket)
	return socket, nil
}

func (g *groups) set(socket, option int, of netip.Addr) error {
	return unix.SetsockoptIPv6Mreq(socket, unix.IPPROTO_IPV6, option, &unix.IPv6Mreq{Multiaddr: of.As16(), Interface: uint32(g.index)})
}

// leave ends that. The group is left with its last address.
func (g *groups) leave(address netip.Addr) {
	to, err := ndp.SolicitedNodeMulticast(address)
	at := g.joined[to]
	if err != nil || at == nil {
		return
	}
	if delete(at.addresses, address); len(at.addresses) == 0 {
		_ = g.set(at.socket, unix.IPV6_LEAVE_GROUP, to) // where the interface is gone, so is the group
		delete(g.joined, to)
	}
}

func (g *groups) close() {
	for _, socket := range g.sockets {
		_ = unix.Close(socket) // it leaves its groups
	}
	g.sockets = nil
}
