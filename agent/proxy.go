package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// proxyHealth is where kube-proxy says how it is.
	proxyHealth = "http://127.0.0.1:10256/healthz"
	proxyEvery  = 2 * time.Second

	// bootRecently is how long after its boot a machine may still be without kube-proxy's rules when its agent starts.
	bootRecently = 5 * time.Minute
	// proxyStarts is how long such an agent waits for kube-proxy to listen. Where nothing ever does, the network plugin carries packets.
	proxyStarts = 30 * time.Second
	// proxyWrites is how long kube-proxy may take for its first rules once it listens: it is healthy before it has written them.
	proxyWrites = 5 * time.Second
)

// proxy watches kube-proxy, which carries the packets that are attracted here.
type proxy struct {
	sick atomic.Bool
	// starting: the machine has just booted, and may have no rules yet.
	starting atomic.Bool
}

// newProxy is for an agent that starts that long after the machine's boot.
func newProxy(sinceBoot time.Duration) *proxy {
	p := &proxy{}
	p.starting.Store(sinceBoot < bootRecently)
	return p
}

// run asks until ctx is done, and calls changed when the answer is another one. Where nothing listens, there is no
// kube-proxy: the network plugin carries packets. What cannot be asked for stays as it was.
func (p *proxy) run(ctx context.Context, url string, changed func()) error {
	client := &http.Client{Timeout: time.Second}
	ticker := time.NewTicker(proxyEvery)
	defer ticker.Stop()
	begin := startup{ready: time.Now().Add(proxyStarts)}
	for {
		sick, listens := p.sick.Load(), false
		if request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil); err == nil {
			response, err := client.Do(request)
			switch {
			case err == nil:
				sick = response.StatusCode == http.StatusServiceUnavailable
				listens = true
				_, _ = io.Copy(io.Discard, response.Body) // else there is a new connection each time
				_ = response.Body.Close()
			case errors.Is(err, syscall.ECONNREFUSED):
				sick = false
			}
		}
		started := begin.over(time.Now(), listens) && p.starting.Swap(false)
		if p.sick.Swap(sick) != sick || started {
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// startup is how far kube-proxy has come since its agent started.
type startup struct {
	listens bool
	ready   time.Time // its rules are there
}

// over notes whether kube-proxy listens now, and reports whether its rules are there, or none is to be expected.
func (s *startup) over(now time.Time, listens bool) bool {
	if listens && !s.listens {
		s.listens, s.ready = true, now.Add(proxyWrites)
	}
	return !now.Before(s.ready)
}
