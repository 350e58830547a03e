package announce

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/pires/go-proxyproto"
	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/kernel"
	"github.com/ccmadm/ccmadm/provider/relay"
)

// carrier runs that of an agent until ctx is done, and the test has ended.
func (a *agents) carrier(ctx context.Context, view *View, log logr.Logger) Carrier {
	p := Proxy{Relay: relay.New(relay.Options{
		Port: v1alpha1.ProxyPort, Namespace: a.hosts[view.Node], Changed: func() {}, Log: log.WithName("proxy"),
	})}
	p.Set(view)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	a.t.Cleanup(func() {
		if err := <-ended; err != nil {
			a.t.Error(err)
		}
	})
	return p
}

// source returns the client's address as an endpoint on the LAN reads it from the header.
func (a *agents) source(client netns.NsHandle, address netip.AddrPort) (saw, is string, err error) {
	var conn net.Conn
	err = kernel.Enter(client, func() (err error) {
		conn, err = net.DialTimeout("tcp", address.String(), time.Second)
		return err
	})
	if err != nil {
		return "", "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Second))
	saw, err = bufio.NewReader(conn).ReadString('\n')
	return saw, conn.LocalAddr().String() + "\n", err
}

// endpoint answers with the source that the header has.
func (a *agents) endpoint() netip.AddrPort {
	a.t.Helper()
	host := a.plug("endpoint", 101)
	var listener net.Listener
	a.at(host, func() (err error) { listener, err = net.Listen("tcp", "10.8.0.101:8080"); return err })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			if header, err := proxyproto.Read(bufio.NewReader(conn)); err == nil {
				_, _ = conn.Write([]byte(header.SourceAddr.String() + "\n"))
			}
			_ = conn.Close()
		}
	}()
	a.t.Cleanup(func() { _ = listener.Close(); <-done })
	return netip.MustParseAddrPort("10.8.0.101:8080")
}

func (a *agents) redirects(name string) bool {
	a.t.Helper()
	names, err := kernel.Tables(a.hosts[name])
	if err != nil {
		a.t.Fatal(err)
	}
	return slices.Contains(names, kernel.ProxyTable)
}

// The owner of an address of level Proxy carries it, and nobody else redirects it; when it moves, planned or not, the
// next owner does. An observer never hears a former owner again.
func TestProxy_Moves(t *testing.T) {
	front := netip.MustParseAddrPort("10.8.0.100:80")
	a := newAgents(t, Claim{Address: front.Addr(), Probed: true})
	a.carries = true
	a.view.Claims[0].Level = v1alpha1.LevelProxy
	a.view.Frontends = []relay.Frontend{{Address: front, Header: true, Endpoints: []netip.AddrPort{a.endpoint()}}}
	for _, name := range a.view.Members {
		a.reportInterface(name)
	}
	client := a.plug("client", 50)
	a.startAll()
	owner, _ := a.owner(front.Addr(), "", 10*time.Second)
	o := a.observe(front.Addr())
	check := func(when string) {
		t.Helper()
		saw, is, err := a.source(client, front)
		if err != nil || saw != is {
			t.Errorf("%s: the endpoint saw %q, the client is %q; %v", when, saw, is, err)
		}
		for _, name := range a.view.Members {
			if a.list[name] != nil && a.redirects(name) != (name == owner) {
				t.Errorf("%s: %s redirects: %t, and %s owns the address", when, name, a.redirects(name), owner)
			}
		}
	}
	check("at first")
	for when, move := range map[string]func(string){
		"drained": func(name string) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			a.list[name].Drain(ctx)
		},
		"killed": a.kill,
	} {
		began, before := time.Now(), owner
		move(owner)
		owner, _ = a.owner(front.Addr(), before, 3*time.Second)
		time.Sleep(300 * time.Millisecond)
		check(when)
		if gap, back := o.gaps(began); back {
			t.Errorf("%s: two owners; no answer for %s", when, gap)
		}
		if a.list[before] != nil {
			a.kill(before)
		}
		a.start(before)
		time.Sleep(1500 * time.Millisecond)
	}
}

// An address whose packets nobody takes is owned and not answered for: its ports are not known, or no agent has a
// carrier.
func TestProxy_NotCarried(t *testing.T) {
	address := netip.MustParseAddr("10.8.0.100")
	a := newAgents(t, Claim{Address: address, Probed: true})
	a.carries = true
	a.view.Claims[0].Level = v1alpha1.LevelProxy
	for _, name := range a.view.Members {
		a.reportInterface(name)
	}
	a.startAll()
	o := a.observe(address)
	time.Sleep(2 * time.Second)
	owned := false
	for _, l2 := range a.list {
		status := v1alpha1.NodeAgentStatus{}
		l2.Report(&status)
		owned = owned || l2.Owns(address)
		if len(status.Announcements) > 0 {
			t.Errorf("it is reported as announced: %v", status.Announcements)
		}
	}
	if !owned {
		t.Error("nobody owns the address")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.answers) > 0 {
		t.Errorf("%d answers for it", len(o.answers))
	}
}
