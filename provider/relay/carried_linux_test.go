package relay

import (
	"context"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/provider/kernel"
)

// start runs a relay on the Node, which owns the addresses of the frontends.
func (n *network) start(frontends ...Frontend) {
	n.Helper()
	n.Relay = New(Options{Port: 10395, Namespace: n.node, Changed: func() {}, Log: testr.New(n.T)})
	n.repair = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(n.Context())
	n.end, n.ended = cancel, make(chan error, 1)
	go func() { n.ended <- n.Relay.Run(ctx) }()
	n.Cleanup(func() { n.stop() })
	n.carry(frontends...)
}

func (n *network) carry(frontends ...Frontend) {
	n.Helper()
	n.Set(frontends, []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd09::1")})
	var owned []netip.Addr
	for _, f := range frontends {
		owned = append(owned, f.Address.Addr())
	}
	n.Carry(owned)
	for _, address := range owned {
		n.eventually("the address is carried", func() bool { return n.Carries(address) })
	}
}

func (n *network) stop() {
	n.Helper()
	if n.end == nil {
		return
	}
	n.end()
	n.end = nil
	if err := <-n.ended; err != nil {
		n.Error(err)
	}
}

func (n *network) eventually(what string, check func() bool) {
	n.Helper()
	for began := time.Now(); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			n.Fatalf("not within 10 s: %s", what)
		}
	}
}

// dial connects from a machine.
func (n *network) dial(from netns.NsHandle, to string) (*net.TCPConn, error) {
	var conn net.Conn
	err := kernel.Enter(from, func() (err error) {
		conn, err = net.DialTimeout("tcp", to, 2*time.Second)
		return err
	})
	if err != nil {
		return nil, err
	}
	n.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn.(*net.TCPConn), nil
}

// ask sends a word, ends its side, and returns the whole answer.
func (n *network) ask(from netns.NsHandle, to string) (answer string, client netip.AddrPort, err error) {
	conn, err := n.dial(from, to)
	if err != nil {
		return "", netip.AddrPort{}, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("ping")); err != nil {
		return "", netip.AddrPort{}, err
	}
	if err := conn.CloseWrite(); err != nil {
		return "", netip.AddrPort{}, err
	}
	text, err := io.ReadAll(conn)
	return string(text), conn.LocalAddr().(*net.TCPAddr).AddrPort(), err
}

// serve answers on the pod, once a client has ended its side, with what it has read.
func (n *network) serveAt(address string) {
	n.Helper()
	var listener net.Listener
	n.at(n.pod, func() (err error) { listener, err = net.Listen("tcp", address); return err })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				text, _ := io.ReadAll(conn)
				_, _ = conn.Write(text)
			}()
		}
	}()
	n.Cleanup(func() { _ = listener.Close(); <-done })
}
