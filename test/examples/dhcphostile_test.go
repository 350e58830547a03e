//go:build linux

package examples

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// Types and options of messages (RFC 2132).
const (
	discover, offer, request, ack, nak, release          = 1, 2, 3, 5, 6, 7
	optionEnd, optionLease, optionType, optionServer     = 255, 51, 53, 54
	optionT1, optionClient                               = 58, 61
	atTransaction, atOwn, atAddress, atRelay, atHardware = 4, 12, 16, 24, 28
	atCookie, atOptions                                  = 236, 240
	played                                               = "127.0.0.2"
	right, wrong                                         = "192.0.2.7", "192.0.2.66"
)

// server is a DHCP server of the test: for what dnsmasq does not do.
type server struct {
	conn, other *net.UDPConn // other has another address
	mu          sync.Mutex
	answer      func(s *server, to *net.UDPAddr, message []byte)
	seen        map[byte]int // messages by their type
}

// newServer makes one, and an adapter that asks it and others.
func newServer(t *testing.T, timeout string, others ...string) (*server, adapter) {
	t.Helper()
	s := &server{seen: map[byte]int{}}
	for address, conn := range map[string]**net.UDPConn{played: &s.conn, "127.0.0.3": &s.other} {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(address), Port: 67})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		*conn = c
	}
	go func() {
		for buffer := make([]byte, 2000); ; {
			n, from, err := s.conn.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.seen[typeOf(buffer[:n])]++
			if s.answer != nil {
				s.answer(s, from, bytes.Clone(buffer[:n]))
			}
			s.mu.Unlock()
		}
	}()
	a, _ := startDHCP(t, `{"lan": {"servers": ["`+strings.Join(append([]string{played}, others...), `", "`)+`"]}}`, "RELAY=127.0.0.1", "TIMEOUT="+timeout)
	return s, a
}

// answers sets how it answers, and forgets what it has seen.
func (s *server) answers(answer func(s *server, to *net.UDPAddr, message []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
	clear(s.seen)
}

func (s *server) send(to *net.UDPAddr, message []byte) { _, _ = s.conn.WriteToUDP(message, to) }

// number is how many messages of a type it has seen.
func (s *server) number(kind byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[kind]
}

// typeOf is the type of a message of the adapter, whose first option it is.
func typeOf(message []byte) byte { return message[atOptions+2] }

// reply is what an honest server sends: an offer, or a lease of an hour.
func reply(message []byte, kind byte, address string, options ...[]byte) []byte {
	r := bytes.Clone(message[:atOptions])
	r[0] = 2
	ip := netip.MustParseAddr(address).As4()
	copy(r[atAddress:], ip[:])
	options = append([][]byte{{optionType, 1, kind}, {optionServer, 4, 127, 0, 0, 2}}, options...)
	return append(append(r, bytes.Join(options, nil)...), optionEnd)
}

func seconds(option byte, n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{option, 4}, n)
}

// kindOf is the type of an honest reply to a message; 0: none.
func kindOf(message []byte) byte {
	return map[byte]byte{discover: offer, request: ack}[typeOf(message)]
}

// honest answers with an address, and with options.
func honest(address string, options ...[]byte) func(*server, *net.UDPAddr, []byte) {
	if options == nil {
		options = [][]byte{seconds(optionLease, 3600)}
	}
	return func(s *server, to *net.UDPAddr, message []byte) {
		if kind := kindOf(message); kind != 0 {
			s.send(to, reply(message, kind, address, options...))
		}
	}
}

// pathOf is the path of a Service for each case.
func pathOf(name string) string { return "lan/" + strings.ReplaceAll(name, " ", "-") + "/ipv4" }

// replaced is a message with other bytes at a place.
func replaced(message []byte, at int, by ...byte) []byte {
	copy(message[at:], by)
	return message
}

// A reply that is no server's to this question, or cannot be read, is passed over: the next one counts.
func TestDHCP_Hostile(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s, a := newServer(t, "6")
	lease := seconds(optionLease, 3600)
	for _, tt := range []struct {
		name string
		made func(message []byte, kind byte) []byte
	}{
		{"another transaction", func(m []byte, kind byte) []byte {
			return replaced(reply(m, kind, wrong, lease), atTransaction, m[atTransaction]+1)
		}},
		{"another hardware address", func(m []byte, kind byte) []byte {
			return replaced(reply(m, kind, wrong, lease), atHardware, 2, 2, 2, 2, 2, 2)
		}},
		{"another client", func(m []byte, kind byte) []byte {
			return reply(m, kind, wrong, lease, []byte{optionClient, 3, 0, 'x', 'y'})
		}},
		{"another relay agent", func(m []byte, kind byte) []byte {
			return replaced(reply(m, kind, wrong, lease), atRelay, 192, 0, 2, 99)
		}},
		{"a request", func(m []byte, kind byte) []byte { return replaced(reply(m, kind, wrong, lease), 0, 1) }},
		{"another kind of hardware", func(m []byte, kind byte) []byte { return replaced(reply(m, kind, wrong, lease), 1, 6) }},
		{"no cookie", func(m []byte, kind byte) []byte { return replaced(reply(m, kind, wrong, lease), atCookie, 0) }},
		{"nothing", func([]byte, byte) []byte { return nil }},
		{"half a header", func(m []byte, kind byte) []byte { return reply(m, kind, wrong, lease)[:100] }},
		{"no options", func(m []byte, kind byte) []byte { return reply(m, kind, wrong)[:atOptions] }},
		{"no end", func(m []byte, kind byte) []byte { r := reply(m, kind, wrong, lease); return r[:len(r)-1] }},
		{"an option without a length", func(m []byte, kind byte) []byte {
			r := reply(m, kind, wrong, lease)
			return append(r[:len(r)-1], 12)
		}},
		{"an option beyond the end", func(m []byte, kind byte) []byte { return reply(m, kind, wrong, lease, []byte{12, 250, 'x'}) }},
		{"no type", func(m []byte, kind byte) []byte { return replaced(reply(m, kind, wrong, lease), atOptions, 0, 0, 0) }},
		{"a type of two bytes", func(m []byte, kind byte) []byte { return reply(m, kind, wrong, lease, []byte{optionType, 1, kind}) }},
		{"no server", func(m []byte, kind byte) []byte {
			return replaced(reply(m, kind, wrong, lease), atOptions+3, 0, 0, 0, 0, 0, 0)
		}},
		{"a server of five bytes", func(m []byte, kind byte) []byte { return reply(m, kind, wrong, lease, []byte{optionServer, 1, 9}) }},
		{"a time of three bytes", func(m []byte, kind byte) []byte { return reply(m, kind, wrong, []byte{optionLease, 3, 1, 1, 1}) }},
		{"a time to renew of one byte", func(m []byte, kind byte) []byte {
			return reply(m, kind, wrong, lease, []byte{optionT1, 1, 9})
		}},
		{"65507 bytes", func([]byte, byte) []byte { return bytes.Repeat([]byte{0xff}, 65507) }},
	} {
		s.answers(func(s *server, to *net.UDPAddr, message []byte) {
			if kind := kindOf(message); kind != 0 {
				s.send(to, tt.made(bytes.Clone(message), kind))
			}
			honest(right)(s, to, message)
		})
		code, body := a.call(t, "PUT", pathOf(tt.name), "")
		if code != 200 || !strings.Contains(body, right) {
			t.Errorf("%s: got %d %s, want 200 %s", tt.name, code, body, right)
		}
	}
	s.answers(func(s *server, to *net.UDPAddr, message []byte) {
		if kind := kindOf(message); kind != 0 {
			_, _ = s.other.WriteToUDP(reply(message, kind, wrong, lease), to)
		}
		honest(right)(s, to, message)
	})
	a.gives(t, "lan/another-sender/ipv4", "", right)
}

// What a server may not do leaves calls refused or failed, and the adapter at work.
func TestDHCP_Wrong(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s, a := newServer(t, "6")
	hour := seconds(optionLease, 3600)
	for _, tt := range []struct {
		name   string
		answer func(s *server, to *net.UDPAddr, message []byte)
		more   string
		want   int
		body   string
		most   int // DHCPDISCOVERs
	}{
		{"it refuses what it offers", func(s *server, to *net.UDPAddr, message []byte) {
			if kind := kindOf(message); kind == ack {
				s.send(to, reply(message, nak, "0.0.0.0"))
			} else if kind == offer {
				s.send(to, reply(message, offer, right, hour))
			}
		}, "", 409, "192.0.2.7 is in use", 3},
		{"it confirms another address", func(s *server, to *net.UDPAddr, message []byte) {
			if kind := kindOf(message); kind != 0 {
				s.send(to, reply(message, kind, map[byte]string{offer: right, ack: wrong}[kind], hour))
			}
		}, "", 409, "192.0.2.7 is in use", 3},
		{"it confirms no time", honest(right, []byte{}), "", 409, "192.0.2.7 is in use", 3},
		{"it offers another address", honest(wrong), `, "wanted": "192.0.2.7"`, 409, "does not offer 192.0.2.7", 1},
		{"it confirms another address than the Service has", honest(wrong), inUse(right), 409, "does not offer 192.0.2.7", 1},
		{"it offers 0.0.0.0", honest("0.0.0.0"), "", 409, "does not offer an address", 1},
		{"it only refuses", func(s *server, to *net.UDPAddr, message []byte) {
			s.send(to, reply(message, nak, "0.0.0.0"))
		}, "", 409, "does not offer", 1},
		{"it sends what cannot be read", func(s *server, to *net.UDPAddr, message []byte) { s.send(to, message[:9]) }, "", 503, "in time", 9},
	} {
		s.answers(tt.answer)
		path := pathOf(tt.name)
		began := time.Now()
		code, body := a.call(t, "PUT", path, tt.more)
		if took := time.Since(began); code != tt.want || !strings.Contains(body, tt.body) || took > 20*time.Second {
			t.Errorf("%s: got %d %s after %v, want %d %s within TIMEOUT", tt.name, code, body, took, tt.want, tt.body)
		}
		if n := s.number(discover); n > tt.most {
			t.Errorf("%s: there were %d DHCPDISCOVER, want %d at most", tt.name, n, tt.most)
		}
		s.answers(honest(right))
		a.call(t, "DELETE", path, "")
		a.gives(t, path, "", right)
		a.call(t, "DELETE", path, "")
	}
}

// A server that does not know a lease may send nothing to a client that wants it for longer.
func TestDHCP_Unknown(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s, a := newServer(t, "6")
	s.answers(func(s *server, to *net.UDPAddr, message []byte) {
		if binary.BigEndian.Uint32(message[atOwn:]) == 0 {
			honest(right)(s, to, message)
		}
	})
	a.gives(t, "lan/u1/ipv4", inUse(right), right)
}

// A DELETE waits until a PUT of the same path is done, and has an effect on it.
func TestDHCP_Order(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s, a := newServer(t, "9")
	s.answers(func(s *server, to *net.UDPAddr, message []byte) {
		time.AfterFunc(2*time.Second, func() { honest(right)(s, to, message) })
	})
	given := make(chan int, 1)
	go func() {
		code, _ := a.call(t, "PUT", "lan/u1/ipv4", "")
		given <- code
	}()
	within(t, time.Minute, "the PUT has begun", func() bool { return s.number(discover) > 0 })
	code, _ := a.call(t, "DELETE", "lan/u1/ipv4", "")
	if put := <-given; put != 200 || code != 200 {
		t.Errorf("PUT is answered %d, and DELETE %d, want 200 and 200", put, code)
	}
	within(t, time.Minute, "the server has the release", func() bool { return s.number(release) == 1 })
}

// However short a lease is, it is renewed every 5 s at most.
func TestDHCP_Short(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s, a := newServer(t, "6")
	s.answers(honest(right, seconds(optionLease, 12), seconds(optionT1, 1<<31)))
	a.gives(t, "lan/u1/ipv4", "", right)
	within(t, time.Minute, "a lease is renewed at half its time if T1 is after its end", func() bool { return s.number(request) > 1 })
	a.call(t, "DELETE", "lan/u1/ipv4", "")

	s.answers(nil)
	began, requests, paths := time.Now(), 0, 0
	for name, options := range map[string][][]byte{
		"no time":                       {seconds(optionLease, 0)},
		"a second":                      {seconds(optionLease, 1)},
		"a second to renew":             {seconds(optionLease, 3600), seconds(optionT1, 1)},
		"longer to renew than the end":  {seconds(optionLease, 6), seconds(optionT1, 1<<31)},
		"at once to renew, and no end":  {seconds(optionLease, 1<<32-1), seconds(optionT1, 0)},
		"the longest, to renew at once": {seconds(optionLease, 1<<32-2), seconds(optionT1, 1<<32-1)},
	} {
		requests += s.number(request)
		s.answers(honest(right, options...))
		a.gives(t, pathOf(name), "", right)
		paths++
	}
	time.Sleep(12 * time.Second)
	requests += s.number(request) - paths // the first of each
	if most := paths * int(time.Since(began)/(5*time.Second)); requests > most {
		t.Errorf("%d leases were renewed %d times within %v, want %d at most", paths, requests, time.Since(began), most)
	}
}

// A call that the client has given up has no lease: the client may have released the address meanwhile.
func TestDHCP_Late(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	s, a := newServer(t, "4")
	s.answers(func(s *server, to *net.UDPAddr, message []byte) {
		time.AfterFunc(6*time.Second, func() { honest(right)(s, to, message) })
	})
	if code, body := a.call(t, "PUT", "lan/u1/ipv4", ""); code != 503 {
		t.Errorf("got %d %s, want 503", code, body)
	}
	if code, _ := a.call(t, "DELETE", "lan/u1/ipv4", ""); code != 404 {
		t.Errorf("a release is answered %d, want 404", code)
	}
	time.Sleep(4 * time.Second)
	if n := s.number(request); n != 0 {
		t.Errorf("there were %d DHCPREQUEST, want none", n)
	}
	// A request that was sent may be confirmed later: a DELETE has to release the address.
	s.answers(func(s *server, to *net.UDPAddr, message []byte) {
		if typeOf(message) == discover {
			s.send(to, reply(message, offer, right))
		}
	})
	if code, body := a.call(t, "PUT", "lan/u1/ipv4", ""); code != 503 {
		t.Errorf("an unconfirmed lease: got %d %s, want 503", code, body)
	}
	if code, _ := a.call(t, "DELETE", "lan/u1/ipv4", ""); code != 200 {
		t.Errorf("its release is answered %d, want 200", code)
	}
	within(t, time.Minute, "the server has the release", func() bool { return s.number(release) == 1 })
}
