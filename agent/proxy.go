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
)

// proxy watches kube-proxy, which carries the packets that are attracted here.
type proxy struct{ sick atomic.Bool }

// run asks until ctx is done, and calls changed when the answer is another one. Where nothing listens, there is no
// kube-proxy: the network plugin carries packets. What cannot be asked for stays as it was.
func (p *proxy) run(ctx context.Context, url string, changed func()) error {
	client := &http.Client{Timeout: time.Second}
	ticker := time.NewTicker(proxyEvery)
	defer ticker.Stop()
	for {
		sick := p.sick.Load()
		if request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil); err == nil {
			response, err := client.Do(request)
			switch {
			case err == nil:
				sick = response.StatusCode == http.StatusServiceUnavailable
				_, _ = io.Copy(io.Discard, response.Body) // else there is a new connection each time
				_ = response.Body.Close()
			case errors.Is(err, syscall.ECONNREFUSED):
				sick = false
			}
		}
		if p.sick.Swap(sick) != sick {
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
