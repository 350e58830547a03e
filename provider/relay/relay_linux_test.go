package relay

import (
	"bufio"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/vishvananda/netns"
)

func to(endpoints ...string) []netip.AddrPort {
	var list []netip.AddrPort
	for _, text := range endpoints {
		list = append(list, netip.MustParseAddrPort(text))
	}
	return list
}

// A client on the LAN, the Node itself and a pod are carried, in both families, to the end of what each side sends. The
// header says who the client is, and what it has connected to; without one the endpoint sees nothing of it.
func TestRelay_Header(t *testing.T) {
	n := newNetwork(t)
	n.serveAt("10.9.1.2:8080")
	n.serveAt("[fd09:1::2]:8080")
	var frontends []Frontend
	for front, endpoint := range map[string]string{"10.9.2.1": "10.9.1.2:8080", "fd09:2::1": "[fd09:1::2]:8080"} {
		address := netip.MustParseAddr(front)
		frontends = append(frontends,
			Frontend{Address: netip.AddrPortFrom(address, 80), Endpoints: to(endpoint)},
			Frontend{Address: netip.AddrPortFrom(address, 81), Endpoints: to(endpoint), Header: true})
	}
	n.start(frontends...)
	for name, from := range map[string]netns.NsHandle{"client": n.client, "node": n.node, "pod": n.pod} {
		for _, f := range frontends {
			answer, client, err := n.ask(from, f.Address.String())
			if err != nil {
				t.Errorf("%s to %s: %v", name, f.Address, err)
				continue
			}
			if !f.Header {
				if answer != "ping" {
					t.Errorf("%s to %s: the endpoint got %q, want what was sent and no more", name, f.Address, answer)
				}
				continue
			}
			reader := bufio.NewReader(strings.NewReader(answer))
			header, err := proxyproto.Read(reader)
			if err != nil {
				t.Errorf("%s to %s: the endpoint got %q: %v", name, f.Address, answer, err)
				continue
			}
			rest, _ := reader.ReadString(0)
			if header.Version != 2 || header.SourceAddr.String() != client.String() ||
				header.DestinationAddr.String() != f.Address.String() || rest != "ping" {
				t.Errorf("%s, %s, to %s: got version %d, %s to %s, then %q", name, client, f.Address, header.Version,
					header.SourceAddr, header.DestinationAddr, rest)
			}
		}
	}
	n.eventually("all that has ended is counted no more", func() bool { return n.Counts() == Counts{} })
}

// Refused are who connects to the listener itself, who comes from elsewhere than the Service wants, and all when
// nothing is behind it.
func TestRelay_Refuses(t *testing.T) {
	n := newNetwork(t)
	n.serveAt("10.9.1.2:8080")
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr("10.9.2.1"), port) }
	good, limited := to("10.9.1.2:8080"), []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	n.start(
		Frontend{Address: at(80), Endpoints: good, Limited: true, Sources: limited},
		Frontend{Address: at(81), Endpoints: good, Limited: true}, // ranges of the other family only
		Frontend{Address: at(82)},
	)
	for _, tt := range []struct {
		name, to string
		from     netns.NsHandle
		want     bool
	}{
		{"a client in the ranges", "10.9.2.1:80", n.client, true},
		{"a pod beyond the ranges", "10.9.2.1:80", n.pod, false},
		{"ranges of another family", "10.9.2.1:81", n.client, false},
		{"no endpoint", "10.9.2.1:82", n.client, false},
		{"the listener itself", "10.9.0.1:10395", n.client, false},
		{"the listener itself, from the Node", "127.0.0.1:10395", n.node, false},
	} {
		began := time.Now()
		answer, _, err := n.ask(tt.from, tt.to)
		if got := err == nil && answer == "ping"; got != tt.want {
			t.Errorf("%s: got %q, %v", tt.name, answer, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: it took %s to say so", tt.name, took)
		}
	}
}

// Of an endpoint that does not answer, and one that refuses, clients notice a second once, and then nothing.
func TestRelay_DeadEndpoints(t *testing.T) {
	n := newNetwork(t)
	n.serveAt("10.9.1.2:8080")
	front := netip.MustParseAddrPort("10.9.2.1:80")
	n.start(Frontend{Address: front, Endpoints: to("10.9.1.99:8080", "10.9.1.2:9", "10.9.1.2:8080")})
	slow := 0
	for range 30 {
		began := time.Now()
		if answer, _, err := n.ask(n.client, front.String()); err != nil || answer != "ping" {
			t.Errorf("after %s: got %q, %v", time.Since(began), answer, err)
		}
		took := time.Since(began)
		if took > dialTime/2 {
			slow++
		}
		if took > 3*dialTime {
			t.Errorf("a connection took %s", took)
		}
	}
	if slow != 1 {
		t.Errorf("%d of 30 connections were slow, want one", slow)
	}
}

// A machine can carry what is of a family that it has, and says so. Where its port is taken it cannot.
func TestRelay_Ready(t *testing.T) {
	n := newNetwork(t)
	n.start()
	if n.Ready() {
		t.Error("there is nothing to carry, and it is ready")
	}
	both := []Frontend{
		{Address: netip.MustParseAddrPort("10.9.2.1:80")}, {Address: netip.MustParseAddrPort("[fd09:2::1]:80")},
	}
	n.Set(both, []netip.Addr{netip.MustParseAddr("10.9.0.1")})
	n.eventually("a machine without IPv6 is ready", n.Ready)
	n.Set(nil, nil)
	n.eventually("with nothing to carry it is not", func() bool { return !n.Ready() })
	var taken net.Listener
	n.at(n.node, func() (err error) { taken, err = net.Listen("tcp6", "[::]:10395"); return err })
	n.Set(both, []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd09::1")})
	time.Sleep(100 * time.Millisecond)
	if n.Ready() {
		t.Error("its port is taken, and it is ready")
	}
	_ = taken.Close()
	n.eventually("once the port is free it is ready", n.Ready)
}

// Told to end, an agent takes no connection any more, and those that are open have some seconds.
func TestRelay_Ends(t *testing.T) {
	n := newNetwork(t)
	n.serveAt("10.9.1.2:8080")
	front := netip.MustParseAddrPort("10.9.2.1:80")
	n.start(Frontend{Address: front, Endpoints: to("10.9.1.2:8080")})
	short, err := n.dial(n.client, front.String())
	if err != nil {
		t.Fatal(err)
	}
	long, err := n.dial(n.client, front.String())
	if err != nil {
		t.Fatal(err)
	}
	n.eventually("both are carried", func() bool { return n.Counts().Open == 2 })
	began := time.Now()
	ended := make(chan struct{})
	go func() { n.stop(); close(ended) }()
	n.eventually("the address is not carried", func() bool { return !n.Carries(front.Addr()) })
	if _, _, err := n.ask(n.client, front.String()); err == nil {
		t.Error("a new connection is carried")
	}
	if _, err := short.Write([]byte("late")); err != nil {
		t.Error(err)
	}
	_ = short.CloseWrite()
	answer := make([]byte, 4)
	if _, err := short.Read(answer); err != nil || string(answer) != "late" {
		t.Errorf("a connection that is open got %q, %v", answer, err)
	}
	if _, err := long.Read(answer); err == nil {
		t.Error("a connection without end got an answer")
	}
	<-ended
	if took := time.Since(began); took < lingerTime || took > lingerTime+2*time.Second {
		t.Errorf("it ended after %s, want %s", took, lingerTime)
	}
	if n.hasTable() {
		t.Error("its table is still there")
	}
}
