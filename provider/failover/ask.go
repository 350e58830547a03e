package failover

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// askTimeout is for one question. A machine that is busy answers all the same: its kernel does.
	askTimeout = 900 * time.Millisecond
	// atOnce is how many are asked at the same time.
	atOnce = 100
)

// Answer is what came back from a machine.
type Answer int

const (
	// Unknown is no answer to the question: it could not be asked.
	Unknown Answer = iota
	// Present is one that the machine gave, a refusal included.
	Present
	// Silent is none.
	Silent
)

// ask connects to the TCP port of the agents' heartbeats, which go by UDP: nothing listens there, so that the machine's
// kernel refuses, and no program is disturbed or writes a log.
func ask(ctx context.Context, address netip.Addr) Answer {
	dialer := net.Dialer{Timeout: askTimeout, KeepAlive: -1}
	connection, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(address, v1alpha1.HeartbeatPort).String())
	if err == nil {
		_ = connection.Close()
		return Present
	}
	if ctx.Err() != nil {
		return Unknown
	}
	return meaning(err)
}

// meaning of an error. That there is no way to the machine says the same as silence, where there is one to most others:
// the route to a machine may go with it.
func meaning(err error) Answer {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return Present
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.As(err, &timeout) && timeout.Timeout():
		return Silent
	}
	return Unknown
}

// askAll returns an answer for each Node, in their order.
func (n *NodeProber) askAll(ctx context.Context, nodes []*corev1.Node) []Answer {
	answers := make([]Answer, len(nodes))
	tokens := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i, node := range nodes {
		tokens <- struct{}{}
		asking.Go(func() {
			defer func() { <-tokens }()
			answers[i] = n.Ask(ctx, addressOf(node))
		})
	}
	asking.Wait()
	return answers
}
