package lbtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
)

// Requests of a client begin requestEvery, and have requestTimeout. quietCount of them have to stay unanswered where no answer may come.
const (
	requestEvery   = 50 * time.Millisecond
	requestTimeout = 2 * time.Second
	quietCount     = 5
)

// asking is a client.
type asking interface {
	// name says for people where it is.
	name() string
	// ask sends requests. Its error says that this was not possible, and nothing of the server.
	ask(context.Context, traffic.Request) (*traffic.Outcome, error)
}

// here is this machine.
type here struct{}

func (here) name() string { return "outside" }

func (here) ask(ctx context.Context, r traffic.Request) (*traffic.Outcome, error) {
	o, err := traffic.Do(ctx, r)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return o, err
}

// inPod is a client pod, reached by the API server's proxy.
type inPod struct {
	*suite
	pod, node string
}

func (c inPod) name() string { return "from a pod on " + c.node }

func (c inPod) ask(ctx context.Context, r traffic.Request) (o *traffic.Outcome, err error) {
	limit := time.Duration(r.Count)*r.Every + r.Timeout + apiTimeout
	what := fmt.Sprintf("ask Pod/%s/%s by the API server's proxy", c.Namespace, c.pod)
	err = c.api.doFor(ctx, limit, what, func(ctx context.Context) error {
		request := c.client.CoreV1().RESTClient().Get().Namespace(c.Namespace).Resource("pods").
			Name(fmt.Sprintf("%s:%d", c.pod, c.clientPort)).SubResource("proxy").Suffix(traffic.AskPath)
		for key, values := range traffic.Query(r) {
			request = request.Param(key, values[0])
		}
		data, err := request.DoRaw(ctx)
		if err != nil {
			return err
		}
		o = &traffic.Outcome{}
		return json.Unmarshal(data, o)
	})
	return o, err
}

// clients are all.
func (s *suite) clients() []asking {
	if s.outside == nil {
		return s.pods
	}
	return append([]asking{s.outside}, s.pods...)
}

// each has all clients do the same at once.
func (s *suite) each(ctx context.Context, do func(context.Context, asking) error) error {
	clients := s.clients()
	errs := make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() { errs[i] = do(ctx, c) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// answers waits until a client gets an answer, and then until it gets all that it asks for in a row. What is lost in between counts.
func (p *probe) answers(ctx context.Context, c asking, protocol, address string) (*traffic.Outcome, error) {
	started := time.Now()
	for count := 1; ; {
		o, err := c.ask(ctx, p.request(protocol, address, count))
		if err != nil {
			return nil, err
		}
		late := time.Since(started) > p.Wait
		switch {
		case count == 1 && o.Answered == 1:
			count = p.Requests
			continue
		case count == 1 && late:
			return nil, failf("%s: %s %s does not answer within %s: %s", c.name(), protocol, address, p.Wait, o.Error)
		case count == 1:
		case o.Lost() == 0:
			return o, nil
		default:
			p.lose(o.Lost())
			if late {
				return nil, failf("%s: %s %s still loses requests after %s, of the last %d %d: %s",
					c.name(), protocol, address, p.Wait, o.Sent, o.Lost(), o.Error)
			}
		}
		if err := pause(ctx, often); err != nil {
			return nil, err
		}
	}
}

func (p *probe) lose(n int) {
	p.counting.Lock()
	defer p.counting.Unlock()
	p.lost += n
}

// reachable has every client get answers from a balancer.
func (p *probe) reachable(ctx context.Context, b *balancer) error {
	return p.each(ctx, func(ctx context.Context, c asking) error {
		_, err := p.answers(ctx, c, b.protocol(), b.target())
		return err
	})
}

// quiet waits until no client gets an answer any more.
func (p *probe) quiet(ctx context.Context, protocol, address, why string) error {
	return p.each(ctx, func(ctx context.Context, c asking) error {
		for started := time.Now(); ; {
			r := p.request(protocol, address, quietCount)
			r.Timeout = time.Second
			o, err := c.ask(ctx, r)
			if err != nil || o.Answered == 0 {
				return err
			}
			if time.Since(started) > p.Wait {
				return failf("%s: %s %s still answers %s after %s", c.name(), protocol, address, why, p.Wait)
			}
			if err := pause(ctx, often); err != nil {
				return err
			}
		}
	})
}
