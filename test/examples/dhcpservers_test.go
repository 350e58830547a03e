//go:build linux

package examples

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// Of two servers one has the lease. While that one does not answer, the other one's refusal ends nothing.
func TestDHCP_Servers(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s, a := newServer(t, "6", "127.0.0.3")
	var answers atomic.Int32 // how the other one, which leases, answers a DHCPREQUEST; 0: it is off
	answers.Store(ack)
	go func() {
		for buffer := make([]byte, 2000); ; {
			n, from, err := s.other.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			kind := byte(answers.Load())
			if kind == ack {
				kind = kindOf(buffer[:n])
			}
			if kind != 0 {
				r := reply(buffer[:n], kind, right, seconds(optionLease, 3600), seconds(optionT1, 5))
				_, _ = s.other.WriteToUDP(replaced(r, atOptions+5, 127, 0, 0, 3), from)
			}
		}
	}()
	path := pathOf("servers")
	a.gives(t, path, "", right)
	answers.Store(0)
	refuses := func() { // and waits until it has been asked to renew
		s.answers(func(s *server, from *net.UDPAddr, message []byte) {
			if typeOf(message) == request {
				s.send(from, reply(message, nak, "0.0.0.0"))
			}
		})
		within(t, 90*time.Second, "the lease is to be renewed", func() bool { return s.number(request) > 0 })
		time.Sleep(4 * time.Second) // the time for an answer
	}
	refuses()
	a.gives(t, path, inUse(right), right)
	answers.Store(nak)
	refuses()
	if code, body := a.call(t, "PUT", path, inUse(right)); code == 200 {
		t.Errorf("its own server has refused it, and the adapter answers %d %s", code, body)
	}
}
