package l2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

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
	return &heartbeats{conn: conn.(*net.UDPConn), key: key, port: port}, nil
}

// receive calls take with each datagram that is signed with the key, and with where it comes from, and refused for each
// other, until it is closed.
func (h *heartbeats) receive(take func(*quorum.Datagram, netip.Addr), refused func(netip.AddrPort, error)) {
	buffer := make([]byte, quorum.MaxDatagram)
	for {
		n, from, err := h.conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP error of somebody who is not there
		}
		d, err := quorum.Decode(h.key, buffer[:n])
		if err != nil {
			refused(from, err)
			continue
		}
		take(d, from.Addr().Unmap())
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
