package traffic

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// reply is what became of one request.
type reply struct {
	at     time.Time
	own    string
	answer Answer
	err    error
}

// Do sends requests at the given interval, without waiting for one to begin the next, and counts answers. Its error is a request
// that cannot be sent as it is, or the end of ctx before the last one was sent; the outcome counts what was sent by then.
func Do(ctx context.Context, r Request) (*Outcome, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	replies := make([]reply, r.Count)
	sent := 0
	var all sync.WaitGroup
	ticker := time.NewTicker(r.Every)
	defer ticker.Stop()
	for i := range replies {
		all.Go(func() { replies[i] = one(ctx, r) })
		sent++
		if sent == r.Count {
			break
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		if ctx.Err() != nil {
			break
		}
	}
	all.Wait()
	return outcome(replies[:sent]), ctx.Err()
}

func outcome(replies []reply) *Outcome {
	o := &Outcome{Servers: map[string]int{}}
	var since time.Time
	for _, p := range replies {
		if errors.Is(p.err, context.Canceled) {
			continue // the caller's end, and no word about the server
		}
		o.Sent++
		if p.err != nil {
			o.Error = p.err.Error()
			if since.IsZero() {
				since = p.at
			}
			o.Outage = max(o.Outage, p.at.Sub(since))
			continue
		}
		if !since.IsZero() {
			o.Outage = max(o.Outage, p.at.Sub(since))
			since = time.Time{}
		}
		o.Answered++
		o.Servers[p.answer.Server]++
		if pair := (Source{Own: p.own, Seen: p.answer.Client}); !slices.Contains(o.Sources, pair) {
			o.Sources = append(o.Sources, pair)
		}
	}
	return o
}

// one sends a request over a socket of its own.
func one(ctx context.Context, r Request) (p reply) {
	p.at = time.Now()
	nonce := rand.Text()
	asking, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	network := map[string]string{TCP: "tcp", UDP: "udp"}[r.Protocol]
	conn, err := (&net.Dialer{KeepAlive: -1}).DialContext(asking, network, r.Address)
	if err != nil {
		p.err = cause(ctx, err)
		return p
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(asking, func() { _ = conn.Close() })()
	p.own = ipOf(conn.LocalAddr())
	exchange := overTCP
	if r.Protocol == UDP {
		exchange = overUDP
	}
	if p.answer, err = exchange(conn, r, nonce); err != nil {
		if asking.Err() != nil {
			err = fmt.Errorf("no answer within %s", r.Timeout)
		}
		p.err = cause(ctx, err)
	}
	return p
}

// cause is the caller's end where it is that, and not the server's.
func cause(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return err
}

func overTCP(conn net.Conn, r Request, nonce string) (a Answer, err error) {
	request := fmt.Sprintf("GET /%s/%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", r.Run, nonce, r.Address)
	if _, err := io.WriteString(conn, request); err != nil {
		return a, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(response.Body, largest))
	if err != nil {
		return a, err
	}
	return read(data, r, nonce)
}

func overUDP(conn net.Conn, r Request, nonce string) (a Answer, err error) {
	if _, err := io.WriteString(conn, r.Run+"/"+nonce); err != nil {
		return a, err
	}
	buffer := make([]byte, largest)
	n, err := conn.Read(buffer)
	if err != nil {
		return a, err
	}
	return read(buffer[:n], r, nonce)
}

// largest is the size of an answer that is read, in bytes.
const largest = 1024

// read takes an answer of this run to this request, and no other.
func read(data []byte, r Request, nonce string) (a Answer, err error) {
	if err := json.Unmarshal(data, &a); err != nil || a.Run != r.Run || a.Nonce != nonce {
		return a, fmt.Errorf("another server answers at %s: %.80q", r.Address, data)
	}
	return a, nil
}

func ipOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
