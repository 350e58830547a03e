package bgp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/mdlayher/ndp"
	"golang.org/x/net/ipv6"
)

const (
	// advertiseInterval is how often a Node advertises itself and asks for the router: FRR's interval for unnumbered BGP.
	advertiseInterval = 10 * time.Second
	// solicitInterval is that of a Node that has heard no router yet (RFC 4861, RTR_SOLICITATION_INTERVAL).
	solicitInterval = 4 * time.Second
	// answerInterval bounds how many advertisements a neighbor can ask for.
	answerInterval = time.Second
	// lookInterval is how often an interface is looked at: one that was made again has the same name, and no router yet.
	lookInterval = time.Second
	// neighborTimeout is how long another router of the link waits for the first one's place: three rounds of solicitations.
	neighborTimeout = 3 * advertiseInterval
)

// neighbors finds the routers at the other end of interfaces, by their router advertisements (RFC 4861). It advertises the Node,
// too, though not as a default router: FRR has a session with an address that it has heard, and with no other.
type neighbors struct {
	changed func()

	mu    sync.Mutex
	links map[string]*link
	ended sync.WaitGroup
}

// link is an interface with a router at its other end.
type link struct {
	name string
	stop context.CancelFunc

	mu    sync.Mutex
	index int        // the interface's, when it was looked at last
	err   error      // why the interface is not listened to
	own   netip.Addr // the Node's link-local address on it
	first heard      // the router; none before its first advertisement
	other heard      // a second one, which a link between two has not
}

// heard is a router that advertises itself: link-local, with the interface as its zone.
type heard struct {
	address netip.Addr
	at      time.Time
}

func newNeighbors(changed func()) *neighbors {
	return &neighbors{changed: changed, links: map[string]*link{}}
}

// listen makes these the interfaces that are listened to, until ctx is done.
func (n *neighbors) listen(ctx context.Context, interfaces map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, l := range n.links {
		if !interfaces[name] {
			l.stop()
			delete(n.links, name)
		}
	}
	for name := range interfaces {
		if n.links[name] != nil {
			continue
		}
		listening, stop := context.WithCancel(ctx)
		l := &link{name: name, stop: stop}
		n.links[name] = l
		n.ended.Go(func() { l.follow(listening, n.changed) })
	}
}

// close waits until no interface is listened to.
func (n *neighbors) close() {
	n.mu.Lock()
	for _, l := range n.links {
		l.stop()
	}
	n.mu.Unlock()
	n.ended.Wait()
}

// resolve completes a router that is known by its interface: its address, from that of the Node. What is wrong is its Problem or
// its Warning.
func (n *neighbors) resolve(r Router) Router {
	if r.Interface == "" || r.Problem != "" {
		return r
	}
	n.mu.Lock()
	l := n.links[r.Interface]
	n.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong := ""
	switch {
	case l.err != nil:
		wrong = fmt.Sprintf("interface %s: %v", r.Interface, l.err)
	case !l.first.address.IsValid():
		wrong = fmt.Sprintf("interface %s: no router advertisement was received yet", r.Interface)
	case l.other.address.IsValid():
		wrong = fmt.Sprintf("interface %s: %s advertises itself, too, and gets no session", r.Interface, l.other.address.WithZone(""))
	}
	if l.first.address.IsValid() {
		r.Address, r.SourceAddress, r.Link = l.first.address.String(), l.own.String(), l.index
		r.Warning = cmp.Or(r.Warning, wrong)
	} else {
		r.Problem = wrong
	}
	return r
}

// follow listens until ctx is done. A router that was found stays known while the interface is down: the session says so.
func (l *link) follow(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		err := l.listen(ctx, changed)
		if l.fail(err) && ctx.Err() == nil {
			changed()
		}
		wait(ctx, lookInterval)
	}
}

// listen hears routers until ctx is done, or the interface is no longer what it was.
func (l *link) listen(ctx context.Context, changed func()) error {
	i, err := net.InterfaceByName(l.name)
	if err != nil {
		return err
	}
	if l.is(i.Index) {
		forgetZones(ctx)
	}
	conn, own, err := ndp.Listen(i, ndp.LinkLocal)
	if err != nil {
		return fmt.Errorf("it has no link-local address, IPv6 is off, or it is down: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	if err := errors.Join(still(i, own), hearRouters(conn)); err != nil {
		return err
	}
	if l.begin(own) {
		changed()
	}
	var next, look, answered time.Time
	for {
		now := time.Now()
		if !now.Before(look) { // not with each packet: it asks for all interfaces
			if err := still(i, own); err != nil {
				return err
			}
			look = now.Add(lookInterval)
		}
		if !now.Before(next) {
			// A link that is down cannot be written to. It is tried again.
			_ = conn.WriteTo(&ndp.RouterSolicitation{Options: sourceOf(i)}, nil, netip.IPv6LinkLocalAllRouters())
			_ = advertise(conn, i)
			next = now.Add(l.interval())
		}
		if err := conn.SetReadDeadline(look); err != nil {
			return err
		}
		message, control, from, err := conn.ReadFrom()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
		case err != nil:
			return err
		case control == nil || control.HopLimit != ndp.HopLimit || control.IfIndex != i.Index:
			// It came from another network (RFC 4861, 6.1).
		case isSolicitation(message):
			if now := time.Now(); now.Sub(answered) >= answerInterval {
				answered = now
				_ = advertise(conn, i)
			}
		case isRouter(message) && from.IsLinkLocalUnicast() && l.note(from, time.Now()):
			changed()
		}
	}
}

func hearRouters(conn *ndp.Conn) error {
	filter := ipv6.ICMPFilter{}
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeRouterSolicitation)
	filter.Accept(ipv6.ICMPTypeRouterAdvertisement)
	return errors.Join(
		conn.SetICMPFilter(&filter),
		conn.SetControlMessage(ipv6.FlagHopLimit|ipv6.FlagInterface, true),
		conn.JoinGroup(netip.IPv6LinkLocalAllRouters()),
		conn.JoinGroup(netip.IPv6LinkLocalAllNodes()),
	)
}

// advertise says that this Node is there. A lifetime of 0 makes it the default router of no neighbor (RFC 4861, 4.2).
func advertise(conn *ndp.Conn, i *net.Interface) error {
	return conn.WriteTo(&ndp.RouterAdvertisement{Options: sourceOf(i)}, nil, netip.IPv6LinkLocalAllNodes())
}

func sourceOf(i *net.Interface) []ndp.Option {
	if len(i.HardwareAddr) != 6 { // such as a tunnel
		return nil
	}
	return []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: i.HardwareAddr}}
}

// still says why an interface is not the one that is listened to, with a cable and the address that is spoken from; nil: it is.
func still(i *net.Interface, own netip.Addr) error {
	now, err := net.InterfaceByName(i.Name)
	switch {
	case err != nil:
		return err
	case now.Index != i.Index:
		return errors.New("it was made again")
	case now.Flags&net.FlagRunning == 0:
		return errors.New("it has no link")
	}
	addresses, err := now.Addrs()
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == own.WithZone("") {
			return nil
		}
	}
	return fmt.Errorf("it no longer has %s", own.WithZone(""))
}

// is takes in the interface's index, and reports whether it is another one.
func (l *link) is(index int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	other := l.index != index
	l.index = index
	return other
}

// begin takes in that the interface is listened to, and reports whether that changes anything.
func (l *link) begin(own netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := l.err == nil && l.own == own
	l.err, l.own = nil, own
	return !same
}

// fail takes in why the interface is not listened to, and reports whether that changes anything. Its next router may be another one.
func (l *link) fail(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	same := fmt.Sprint(l.err) == fmt.Sprint(err)
	l.err, l.first.at, l.other = err, time.Time{}, heard{}
	return !same
}

func (l *link) interval() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.first.at.IsZero() {
		return advertiseInterval
	}
	return solicitInterval
}

// note takes in that a router was heard, and reports whether that changes anything. The first one stays for as long as it is heard:
// two on one link would take turns otherwise. One that was replaced has another address, and is followed once the first has not been heard for that time.
func (l *link) note(from netip.Addr, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, other := l.first.address, l.other.address
	switch {
	case from == first:
		l.first.at = now
	case !first.IsValid() || now.Sub(l.first.at) >= neighborTimeout:
		l.first = heard{from, now}
	case from == other || !other.IsValid(): // the others of a crowd are no news
		l.other = heard{from, now}
	}
	if l.other.address == l.first.address || now.Sub(l.other.at) >= neighborTimeout {
		l.other = heard{}
	}
	return l.first.address != first || l.other.address != other
}

// isRouter tells a router from a Node, which says of itself neither how long it is a default router nor a hop limit for others.
func isRouter(message ndp.Message) bool {
	m, is := message.(*ndp.RouterAdvertisement)
	return is && (m.RouterLifetime > 0 || m.CurrentHopLimit > 0)
}

// forgetZones makes package net look up the indices of interfaces again: it keeps them for a minute by name, and one that was made
// again has the same name. It does so for names that it does not know, such as one that no interface can have.
func forgetZones(ctx context.Context) {
	if conn, err := (&net.Dialer{}).DialContext(ctx, "udp6", "[fe80::1%/]:9"); err == nil {
		_ = conn.Close()
	}
}

func isSolicitation(message ndp.Message) bool {
	_, is := message.(*ndp.RouterSolicitation)
	return is
}
