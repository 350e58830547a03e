// Command prober is a client that measures: it connects to an address fifty times a second, asks by ARP for its owner
// ten times a second, and listens to what owners say unasked. It runs until it is interrupted.
//
//	prober ADDRESS:PORT [INTERFACE]     without an interface: no ARP, as for an address that is routed to
//	prober https://ADDRESS:PORT/PATH    a connection counts once the page is there, whatever CA signed the certificate:
//	                                    a proxy accepts connections without any server, the kernel for one that hangs
//
// Reads nothing. Writes a line of JSON to its output for each connection, whether it came about or not, and for each
// ARP packet that claims the address. Their order is that in which they are known, not that of their times.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mdlayher/arp"
)

const (
	connectEvery = 20 * time.Millisecond
	patience     = 900 * time.Millisecond
	askEvery     = 100 * time.Millisecond
)

// event is a line. Its times are of the clock that all machines of a lab share.
type event struct {
	At    time.Time     `json:"at"`              // of the beginning
	Took  time.Duration `json:"took,omitempty"`  // until it was connected, or had failed
	What  string        `json:"what"`            // connect, or arp
	Error string        `json:"error,omitempty"` // why it was not
	MAC   string        `json:"mac,omitempty"`   // of who claims the address
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "prober: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New("usage: prober ADDRESS:PORT|https://ADDRESS:PORT/PATH [INTERFACE]")
	}
	target, try, err := parse(args[0])
	if err != nil {
		return err
	}
	lines := make(chan event, 1024)
	var workers sync.WaitGroup
	if len(args) == 2 {
		link, err := net.InterfaceByName(args[1])
		if err != nil {
			return err
		}
		client, err := arp.Dial(link)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = client.Close() })
		address := net.IP(target.Addr().AsSlice())
		workers.Go(func() { ask(ctx, client, address) })
		workers.Go(func() { listen(ctx, client, address, lines) })
	}
	workers.Go(func() { connect(ctx, try, lines) })
	go func() {
		workers.Wait()
		close(lines)
	}()
	out := json.NewEncoder(os.Stdout)
	for e := range lines {
		if err := out.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// attempt makes one connection, and says why it did not come about.
type attempt func(context.Context) error

func parse(target string) (netip.AddrPort, attempt, error) {
	address, isPage := strings.CutPrefix(target, "https://")
	if isPage {
		address, _, _ = strings.Cut(address, "/")
	}
	to, err := netip.ParseAddrPort(address)
	if isPage {
		return to, page(target), err
	}
	return to, func(ctx context.Context) error {
		connection, err := dial(ctx, "tcp", target)
		if err != nil {
			return err
		}
		return connection.Close()
	}, err
}

// dial leaves nothing of a connection once it is closed: a thousand waiting sockets help nobody.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: patience, KeepAlive: -1}
	connection, err := dialer.DialContext(ctx, network, address)
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return connection, err
}

// page asks by a connection of its own each time.
func page(target string) attempt {
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}
}

// connect does not wait for one connection to begin the next.
func connect(ctx context.Context, try attempt, lines chan<- event) {
	var connections sync.WaitGroup
	defer connections.Wait()
	ticker := time.NewTicker(connectEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case at := <-ticker.C:
			connections.Go(func() {
				e := event{At: at, What: "connect"}
				err := try(ctx)
				e.Took = time.Since(at)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					e.Error = err.Error()
				}
				lines <- e
			})
		}
	}
}

// ask is a client that knows nothing, again and again.
func ask(ctx context.Context, client *arp.Client, address net.IP) {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = client.Request(address) // a machine without a link says nothing, and that is what is measured
		}
	}
}

// listen notes every claim: an answer, or a gratuitous packet.
func listen(ctx context.Context, client *arp.Client, address net.IP, lines chan<- event) {
	for ctx.Err() == nil {
		packet, _, err := client.Read()
		if err != nil || !packet.SenderIP.Equal(address) {
			continue
		}
		lines <- event{At: time.Now(), What: "arp", MAC: packet.SenderHardwareAddr.String()}
	}
}
