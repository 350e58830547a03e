package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sync/errgroup"

	"github.com/ccmadm/ccmadm/api/finding"
)

const (
	// attempts are so many that one control plane of three that has just gone does not count, each of attemptTimeout.
	attempts, attemptTimeout = 3, 2 * time.Second
	// atOnce bounds how many targets a pod asks at the same time.
	atOnce = 32
	// pingTimeout is for an address that did not answer otherwise.
	pingTimeout = time.Second
)

// Task is what one pod does.
type Task struct {
	Targets []Target `json:"targets"`
	// CA are the certificates, as PEM, that sign those of API servers. Empty: none is verified.
	CA string `json:"ca,omitempty"`
}

// Ask does a task where this program runs. It takes at most some ten seconds for each 32 targets, or until ctx ends.
func Ask(ctx context.Context, t *Task) (*Answer, error) {
	var pool *x509.CertPool
	if t.CA != "" {
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, fmt.Errorf("read the task: %d bytes hold no certificate of a CA", len(t.CA))
		}
	}
	a := &Answer{Version: answerVersion, Asked: len(t.Targets)}
	failed := make([]*Failure, len(t.Targets))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i := range t.Targets {
		all.Go(func() error {
			failed[i] = askOne(ctx, i, &t.Targets[i], pool)
			return nil
		})
	}
	_ = all.Wait()        // none returns an error
	if ctx.Err() != nil { // then no answer says nothing of a target
		return nil, fmt.Errorf("ask %s: %w", finding.Count(len(t.Targets), "target"), context.Cause(ctx))
	}
	for _, f := range failed {
		if f != nil {
			a.Failed = append(a.Failed, *f)
		}
	}
	if value, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); err == nil {
		a.Forwarding = strings.TrimSpace(string(value))
	}
	a.Link, a.MTU = defaultLink()
	if links, err := net.Interfaces(); err == nil {
		a.Largest = largest(links, ownLink)
	}
	return a, nil
}

// askOne returns nil where the target answers.
func askOne(ctx context.Context, i int, t *Target, ca *x509.CertPool) *Failure {
	var err error
	for range attempts {
		if err = ask(ctx, t, ca); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	f := &Failure{Target: i, Kind: kindOf(err), Error: finding.Clean(err.Error())}
	if t.Subject == DNSUDP || t.Subject == DNSTCP {
		f.Kind = kindOfDNS(err)
	}
	if t.Subject == Kubelet && (f.Kind == Dropped || f.Kind == NoRoute) {
		if host, _, err := net.SplitHostPort(t.Address); err == nil {
			f.Ping = ping(ctx, host)
		}
	}
	return f
}

func ask(ctx context.Context, t *Target, ca *x509.CertPool) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	switch t.Subject {
	case DNSUDP:
		return askDNS(ctx, "udp", t)
	case DNSTCP:
		return askDNS(ctx, "tcp", t)
	case Balancer: // what answers there is not known
		c, err := new(net.Dialer).DialContext(ctx, "tcp", t.Address)
		if err != nil {
			return err
		}
		return c.Close()
	case Kubelet: // its certificate is its own where no one signs it
		return askHTTPS(ctx, t.Address, nil)
	case Service, Endpoint, Server:
	}
	return askHTTPS(ctx, t.Address, ca)
}

// askHTTPS is nil when any server answers, whatever it says. No credential is sent, and none is asked for. Without a pool no
// certificate is verified.
func askHTTPS(ctx context.Context, address string, ca *x509.CertPool) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/version", nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", address, err)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: ca, InsecureSkipVerify: ca == nil}, DisableKeepAlives: true,
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// askDNS asks one server for a name, by one protocol.
func askDNS(ctx context.Context, network string, t *Target) error {
	resolver := net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, t.Address)
	}}
	_, err := resolver.LookupNetIP(ctx, "ip", t.Name)
	if t.AnyAnswer && kindOfDNS(err) == NameUnknown {
		return nil
	}
	return err
}

// ping is yes or no, and empty where this program may not ask or does not know the address.
func ping(ctx context.Context, host string) string {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	network, local, protocol, kind := "udp4", "0.0.0.0", 1, icmp.Type(ipv4.ICMPTypeEcho)
	if addr.Is6() {
		network, local, protocol, kind = "udp6", "::", 58, ipv6.ICMPTypeEchoRequest
	}
	c, err := icmp.ListenPacket(network, local) // a socket without privileges: net.ipv4.ping_group_range may forbid it
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }() // nothing was written that could be lost
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
	defer stop()
	data, err := (&icmp.Message{Type: kind, Body: &icmp.Echo{ID: 1, Seq: 1, Data: []byte("ccmadm")}}).Marshal(nil)
	if err != nil || c.SetDeadline(time.Now().Add(pingTimeout)) != nil {
		return ""
	}
	if _, err := c.WriteTo(data, &net.UDPAddr{IP: addr.AsSlice()}); err != nil {
		return "no"
	}
	buffer := make([]byte, 1500)
	for {
		n, _, err := c.ReadFrom(buffer)
		if err != nil {
			return "no"
		}
		message, err := icmp.ParseMessage(protocol, buffer[:n])
		if err == nil && (message.Type == ipv4.ICMPTypeEchoReply || message.Type == ipv6.ICMPTypeEchoReply) {
			return "yes"
		}
	}
}

// largest is the largest MTU of links that are up and belong to the machine: those of pods, bridges and tunnels do not.
func largest(links []net.Interface, own func(string) bool) int {
	most := 0
	for _, link := range links {
		if link.Flags&net.FlagUp != 0 && link.Flags&net.FlagLoopback == 0 && link.MTU > most && own(link.Name) {
			most = link.MTU
		}
	}
	return most
}

// ownLink tells whether a link is a device, a bond or a VLAN.
func ownLink(name string) bool {
	for _, path := range []string{"/sys/class/net/" + name + "/device", "/proc/net/bonding/" + name, "/proc/net/vlan/" + name} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

// defaultLink is the interface of the default route, and its MTU; IPv4's before IPv6's.
func defaultLink() (name string, mtu int) {
	if data, err := os.ReadFile("/proc/net/route"); err == nil {
		name = defaultRoute(string(data))
	}
	if name == "" {
		if data, err := os.ReadFile("/proc/net/ipv6_route"); err == nil {
			name = defaultRoute6(string(data))
		}
	}
	if name == "" {
		return "", 0
	}
	link, err := net.InterfaceByName(name)
	if err != nil {
		return name, 0
	}
	return name, link.MTU
}
