package l2

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// heartbeats carries datagrams between members by UDP.
type heartbeats struct {
	conn *net.UDPConn
	key  []byte
	port uint16
}

// listen opens the port. Whoever else has it is probably another agent of this machine.
func listen(ctx context.Context, key []byte, address netip.Addr, port uint16) (*heartbeats, error) {
	if len(key) < 16 {
		return nil, fmt.Errorf("read key of heartbeats: it has %d bytes, and needs 16 at least", len(key))
	}
	host := ""
	if address.IsValid() {
		host = address.String()
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for heartbeats: %w", err)
	}
	h := &heartbeats{conn: conn.(*net.UDPConn), key: key, port: port}
	_ = setReceiveBuffer(h.conn, receiveBuffer) // a smaller one is enough for heartbeats alone
	return h, nil
}

const (
	// receiveBuffer is that of heartbeats, in bytes: those of a thousand Nodes while a step with thousands of addresses is made, and what any
	// machine may send beside them.
	receiveBuffer = 4 << 20
	// strangersAtOnce is how many datagrams are verified in about a [quorum.HeartbeatInterval] that come from where no agent was heard before:
	// those of a thousand agents that this one hears for the first time, with their answers. Verifying takes longer than reading, and in a
	// flood it is the heartbeats of agents that are known which have to be read.
	strangersAtOnce = 4000
	// strangerSize is how many bytes count as a datagram: heartbeats have fewer, and those of a flood may have 64 KiB.
	strangerSize = 1 << 11
	// maxSources is how many sources are known: far more than there are agents, so that those of former ones do not matter.
	maxSources = 1 << 13
)

// errFlood is why a datagram was not verified.
var errFlood = errors.New("too many datagrams that come from no known agent")

// sources are the addresses from which agents send, with the port on which they listen, and how many other datagrams have come lately.
// Packets of pods that a network add-on gives the address of their Node have another port. A datagram that was recorded and is sent again is
// signed, too: it makes no source known.
type sources struct {
	agents    map[netip.AddrPort]bool
	strangers int
	until     time.Time // when others are verified again
}

// verify reports whether a datagram of so many bytes is to be.
func (s *sources) verify(from netip.AddrPort, size int, now time.Time) bool {
	if s.agents[from] {
		return true
	}
	if !now.Before(s.until) {
		// With intervals as long as those of heartbeats, those of a new agent would come late in each, after a flood.
		s.strangers, s.until = 0, now.Add(quorum.HeartbeatInterval/2+rand.N(quorum.HeartbeatInterval)) //nolint:gosec // no secret
	}
	s.strangers += 1 + size/strangerSize
	return s.strangers <= strangersAtOnce
}

// know notes where an agent sends from.
func (s *sources) know(from netip.AddrPort) {
	if s.agents == nil || len(s.agents) >= maxSources {
		s.agents = map[netip.AddrPort]bool{}
	}
	s.agents[from] = true
}

// setReceiveBuffer sets the receive buffer of a connection: where the program may, beyond net.core.rmem_max.
func setReceiveBuffer(conn *net.UDPConn, bytes int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var force error
	err = raw.Control(func(fd uintptr) { force = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes) })
	if err == nil && force != nil {
		err = conn.SetReadBuffer(bytes)
	}
	return err
}

// receive calls take with each datagram that is signed with the key, and with where it comes from, and refused for each
// other, until it is closed. take reports whether the datagram is new.
func (h *heartbeats) receive(take func(*quorum.Datagram, netip.Addr) bool, refused func(netip.AddrPort, error)) {
	buffer := make([]byte, quorum.MaxDatagram)
	var sources sources
	for {
		n, from, err := h.conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of somebody who is not there
		}
		h.handle(&sources, buffer[:n], from, time.Now(), take, refused)
	}
}

// handle takes a datagram that has arrived.
func (h *heartbeats) handle(
	s *sources, data []byte, from netip.AddrPort, now time.Time,
	take func(*quorum.Datagram, netip.Addr) bool, refused func(netip.AddrPort, error),
) {
	if !s.verify(from, len(data), now) {
		refused(from, errFlood)
		return
	}
	d, err := quorum.Decode(h.key, data)
	if err != nil {
		refused(from, err)
		return
	}
	if take(d, from.Addr().Unmap()) && from.Port() == h.port {
		s.know(from)
	}
}

// send says what kept the machine from sending. It is not told whether anything arrives.
func (h *heartbeats) send(d *quorum.Datagram, to netip.Addr) error {
	if _, err := h.conn.WriteToUDPAddrPort(d.Encode(h.key), netip.AddrPortFrom(to, h.port)); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("send heartbeat to %s: %w", d.To, err)
	}
	return nil
}

// unsent are the errors of heartbeats, by Node: each is logged once, though it comes ten times a second.
type unsent map[string]string

// note returns whether the error for the Node is another one than before.
func (u unsent) note(node string, err error) bool {
	if err == nil {
		delete(u, node)
		return false
	}
	changed := u[node] != err.Error()
	u[node] = err.Error()
	return changed
}
