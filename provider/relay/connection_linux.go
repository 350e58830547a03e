package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/ccmadm/ccmadm/provider/kernel"
)

const (
	// maxConnections of an agent, and maxOfPort of one port of an address, so that one Service leaves room for others.
	maxConnections = 10000
	maxOfPort      = 5000
	// dialTime is how long one endpoint has to answer, and connectTime how long a client waits for any.
	dialTime    = time.Second
	connectTime = 10 * time.Second
)

// errNoEndpoint is what a client is refused for.
var errNoEndpoint = errors.New("no endpoint can be reached")

// keepAlive finds out within 90 seconds that a peer is gone. A connection may be idle for as long as both are there.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}
}

// serve carries a connection to its end, or refuses it. It ends with ctx.
func (r *Relay) serve(ctx context.Context, client *net.TCPConn, ipv6 bool) {
	defer func() { _ = client.Close() }()
	from := client.RemoteAddr().(*net.TCPAddr).AddrPort()
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	to, err := originalDestination(client, ipv6)
	if err != nil {
		reset(client)
		return
	}
	front := r.admit(to, from.Addr())
	if front == nil {
		reset(client)
		return
	}
	defer r.leave(to)
	server, err := r.connect(ctx, front, from)
	if err != nil {
		reset(client)
		return
	}
	defer func() { _ = server.Close() }()
	defer context.AfterFunc(ctx, func() {
		reset(client)
		reset(server)
	})()
	var both sync.WaitGroup
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}

// admit returns what a client is to be connected to, and counts it until leave; nil: it is refused.
func (r *Relay) admit(to netip.AddrPort, client netip.Addr) *Frontend {
	r.mu.Lock()
	defer r.mu.Unlock()
	front := r.frontends[to]
	if front == nil || !front.admits(client) {
		return nil
	}
	if r.counts.Open >= maxConnections || r.open[to] >= maxOfPort {
		r.counts.Refused++
		return nil
	}
	r.counts.Open++
	r.open[to]++
	return front
}

func (r *Relay) leave(to netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Open--
	if r.open[to]--; r.open[to] == 0 {
		delete(r.open, to)
	}
}

// connect reaches one endpoint after the other, until one answers.
func (r *Relay) connect(ctx context.Context, front *Frontend, client netip.AddrPort) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for _, endpoint := range r.failures.order(time.Now(), front, client.Addr()) {
		r.failures.trying(time.Now(), endpoint)
		server, err := r.dial(ctx, endpoint)
		if err == nil && front.Header {
			if err = writeHeader(server, client, front.Address); err != nil {
				_ = server.Close()
			}
		}
		if err != nil && ctx.Err() != nil {
			break // it is not the endpoint's fault
		}
		r.failures.tried(time.Now(), endpoint, err == nil)
		if err == nil {
			return server, nil
		}
	}
	return nil, errNoEndpoint
}

func (r *Relay) dial(ctx context.Context, endpoint netip.AddrPort) (server *net.TCPConn, err error) {
	dialer := net.Dialer{Timeout: dialTime, KeepAliveConfig: keepAlive()}
	err = kernel.Enter(r.Namespace, func() error {
		server, err = dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, endpoint)
		return err
	})
	return server, err
}

// writeHeader says who the client is, and what it has connected to. A new connection has room for it.
func writeHeader(server *net.TCPConn, client, to netip.AddrPort) error {
	header := proxyproto.HeaderProxyFromAddrs(2, net.TCPAddrFromAddrPort(client), net.TCPAddrFromAddrPort(to))
	_, err := header.WriteTo(server)
	return err
}

// pass copies in one direction. The end of what is sent is passed on, and the other direction goes on; an error ends
// both.
func pass(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		reset(from)
		reset(to)
		return
	}
	_ = to.CloseWrite()
}

// reset ends a connection so that the other side notices that it did not end by itself.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
