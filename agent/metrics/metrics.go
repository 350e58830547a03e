// Package metrics serves what a program of the agent says of itself: /healthz, /readyz and /metrics.
//
// Start at [Server]. Reads: the registry of metrics of this process. Writes: nothing.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	k8smetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Server answers /healthz, /readyz and /metrics. All are for this machine: there is no secret in them, and no identity to
// ask for.
type Server struct {
	// Address is of the flag --metrics-address; empty: nothing is served.
	Address string
	// Ready returns, if there is any, an error of /readyz alone: kubelets restart what is not healthy, and a restart brings
	// no carrier back, but takes a vote, and the address from a machine that is alone.
	Ready func() error
	// Paths are what else is answered.
	Paths map[string]http.HandlerFunc
}

// Serve answers until ctx is done.
func (s Server) Serve(ctx context.Context) error {
	if s.Address == "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("listen at --metrics-address: %w", err)
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

func (s Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.Ready != nil {
			if err := s.Ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	for path, handler := range s.Paths {
		mux.HandleFunc(path, handler)
	}
	mux.Handle("/metrics", legacyregistry.Handler())
	return mux
}

// Register shows a number at /metrics. It may be called once for each name.
func Register(subsystem, name, help string, value func() int) {
	legacyregistry.RawMustRegister(k8smetrics.NewGaugeFunc(&k8smetrics.GaugeOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: k8smetrics.ALPHA,
	}, func() float64 { return float64(value()) }))
}
