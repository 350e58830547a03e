package vip

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/ccmadm/ccmadm/provider/changes"
)

const (
	// healthInterval is that of questions to this machine's API server, and healthFailures how many may fail in a row.
	healthInterval = 200 * time.Millisecond
	healthFailures = 3
	// healthTimeout is how long an answer may take.
	healthTimeout = time.Second
	// refusedInterval is when it is asked again after nobody listens there: a second refusal is enough.
	refusedInterval = 50 * time.Millisecond
)

// health asks this machine's API server whether it lives.
type health struct {
	client *http.Client
	server string
}

func newHealth(caFile string, port int) (*health, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read --ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read --ca-file: %s has no certificate", caFile)
	}
	// Every API server of kubeadm's has this name, and none has that of 127.0.0.1. Each question is a connection of its own, as clients of the
	// address begin them: over an old one a server answers that accepts none any more.
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, ServerName: "kubernetes", MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}
	return &health{
		client: &http.Client{Timeout: healthTimeout, Transport: transport},
		server: fmt.Sprintf("https://127.0.0.1:%d", port),
	}, nil
}

// watch calls tell with each change, until ctx is done, and again where tell was not able to act upon it. It begins as
// unhealthy, and says so. One that fails before tell could act upon its health is unhealthy, too: what tell waits for begins again.
// That nothing listens on the port is no load of the machine: then the second failure counts.
func (h *health) watch(ctx context.Context, tell func(bool) error) {
	healthy, refused, failures := false, false, 0
	var next time.Duration
	_ = tell(false) // nothing is to be done for it that can fail
	for ; ctx.Err() == nil; changes.Sleep(ctx, next) {
		next = healthInterval
		switch err := h.ask(ctx); {
		case err == nil:
			failures = 0
		case failures > 0 && errors.Is(err, syscall.ECONNREFUSED):
			failures = healthFailures
		case errors.Is(err, syscall.ECONNREFUSED):
			failures, next = 1, refusedInterval
		default:
			failures++
		}
		now := failures == 0 || healthy && failures < healthFailures
		if lost := refused && failures >= healthFailures; (now != healthy || lost) && ctx.Err() == nil {
			if refused = tell(now) != nil; !refused {
				healthy = now
			}
		}
	}
}

// ask gets any answer of a server that works: one that wants to know first who asks is alive, too.
func (h *health) ask(ctx context.Context) error {
	status, err := h.get(ctx, "/livez")
	if err == nil && status >= http.StatusInternalServerError {
		err = fmt.Errorf("ask the API server: %d %s", status, http.StatusText(status))
	}
	return err
}

// ready reports whether the server has begun: until it knows who may do what it forbids everybody everything.
func (h *health) ready(ctx context.Context) bool {
	status, err := h.get(ctx, "/readyz")
	return err == nil && status == http.StatusOK
}

func (h *health) get(ctx context.Context, path string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.server+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close() // nothing of it is read
	return resp.StatusCode, nil
}
