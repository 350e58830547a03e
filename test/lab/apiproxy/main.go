//go:build linux

// Command apiproxy is the load balancer in front of the lab's API servers: one on every machine.
//
// It listens on 127.0.0.1:8443 and hands each connection to whichever of its arguments (HOST:PORT) answers first,
// beginning anywhere in the list. It remembers nothing, so a server that comes or goes is noticed at once.
// Reads and writes nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, "127.0.0.1:8443", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apiproxy: error:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address string, backends []string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go forward(ctx, client, backends)
	}
}

func forward(ctx context.Context, client net.Conn, backends []string) {
	defer func() { _ = client.Close() }()
	server, err := dial(ctx, backends)
	if err != nil {
		fmt.Fprintln(os.Stderr, "apiproxy:", err)
		return
	}
	defer func() { _ = server.Close() }()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1]) // whatever ended it, both ends are closed
			done <- struct{}{}
		}()
	}
	<-done // Kubernetes never closes one half
}

func dial(ctx context.Context, backends []string) (net.Conn, error) {
	dialer := net.Dialer{
		Timeout: 300 * time.Millisecond, // all are one bridge away
		// A machine that lost its power says nothing more: without these limits its connections would hang for minutes.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: time.Second, Count: 3},
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			return errors.Join(c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 5000)
			}), err)
		},
	}
	var problems []error
	first := rand.IntN(max(len(backends), 1))
	for i := range backends {
		connection, err := dialer.DialContext(ctx, "tcp", backends[(first+i)%len(backends)])
		if err == nil {
			return connection, nil
		}
		problems = append(problems, err)
	}
	return nil, errors.Join(problems...)
}
